"""matchConditions: CEL expressions that say whether a webhook wants to hear of a request.

Compiled once per expression and kept. The library is loaded when the first expression is: most
sandboxes never see one. `authorizer` is declared so that expressions compile, but there is no
authorisation here: using it is an error of the evaluation.
"""

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cel_expr_python.cel import Env, Expression

__all__ = ["ConditionError", "compilation_problem", "holds"]

_VARIABLES: Final = ("object", "oldObject", "request", "authorizer")
_KEPT: Final = 1024
_MISSING: Final = re.compile(r'Key not found in map : "(.*)"')


class ConditionError(ValueError):
    """An expression that cannot be evaluated for this request."""


@lru_cache(maxsize=1)
def _environment() -> "Env":
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_optional, ext_strings

    return cel.NewEnv(
        variables=dict.fromkeys(_VARIABLES, cel.Type.DYN),
        extensions=[ext_strings.ExtStrings(), ext_optional.ExtOptional()],
    )


@lru_cache(maxsize=_KEPT)
def _compiled(expression: str) -> "Expression | str":
    """The program, or why there is none."""
    from cel_expr_python import cel

    try:
        program = _environment().compile(expression)
    except RuntimeError as error:
        return str(error).removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
    if program.return_type() not in (cel.Type.BOOL, cel.Type.DYN):
        return "must evaluate to bool"
    return program


def compilation_problem(expression: str) -> str:
    """Why an expression cannot be used; empty if it can."""
    compiled = _compiled(expression)
    return compiled if isinstance(compiled, str) else ""


def holds(expression: str, variables: dict[str, Any]) -> bool:
    """Whether it is true of these; ConditionError, in kube's words, if that cannot be said."""
    compiled = _compiled(expression)
    if isinstance(compiled, str):
        raise ConditionError(f"compilation failed: {compiled}")
    result: Any = compiled.eval(data=variables).value()
    if isinstance(result, bool):
        return result
    missing = _MISSING.search(str(result))
    problem = f"no such key: {missing[1]}" if missing is not None else str(result)
    raise ConditionError(f"expression '{expression}' resulted in error: {problem}")
