"""The label and annotation keys, resource names and values that others know us by.

Volcano's spelling is the contract: operators, dashboards and users' manifests rely on it.
"""

from typing import Final

# Set by the job controller on its pods.
TASK_SPEC: Final = "volcano.sh/task-spec"
TASK_INDEX: Final = "volcano.sh/task-index"
JOB_NAME: Final = "volcano.sh/job-name"
JOB_NAMESPACE: Final = "volcano.sh/job-namespace"
QUEUE_NAME: Final = "volcano.sh/queue-name"
JOB_VERSION: Final = "volcano.sh/job-version"
JOB_RETRY_COUNT: Final = "volcano.sh/job-retry-count"
TEMPLATE_UID: Final = "volcano.sh/template-uid"
PARTITION_ID: Final = "volcano.sh/partition-id"
JOB_TYPE: Final = "volcano.sh/job-type"
JOB_FORWARDING: Final = "volcano.sh/job-forwarding"
OUT_OF_SYNC: Final = "volcano.sh/controller-out-of-sync"
GROUP_NAME: Final = "scheduling.k8s.io/group-name"

# Read by the scheduler and its plugins.
VOLCANO_GROUP_NAME: Final = "scheduling.volcano.sh/group-name"
GROUP_MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
GROUP_MIN_RESOURCES: Final = "scheduling.volcano.sh/group-min-resources"
SCHEDULING_QUEUE_NAME: Final = "scheduling.volcano.sh/queue-name"
QUEUE_ALLOCATION_GATE: Final = "scheduling.volcano.sh/queue-allocation-gate"
PREEMPTABLE: Final = "volcano.sh/preemptable"
TASK_PRIORITY: Final = "volcano.sh/task-priority"
COOLDOWN_TIME: Final = "volcano.sh/cooldown-time"
REVOCABLE_ZONE: Final = "volcano.sh/revocable-zone"
JDB_MIN_AVAILABLE: Final = "volcano.sh/jdb-min-available"
JDB_MAX_UNAVAILABLE: Final = "volcano.sh/jdb-max-unavailable"
SLA_WAITING_TIME: Final = "volcano.sh/sla-waiting-time"
NUMA_TOPOLOGY_POLICY: Final = "volcano.sh/numa-topology-policy"
TOPOLOGY_DECISION: Final = "volcano.sh/topology-decision"
QOS_LEVEL: Final = "volcano.sh/qos-level"
HIERARCHY: Final = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS: Final = "volcano.sh/hierarchy-weights"
NODEGROUP_NAME: Final = "volcano.sh/nodegroup-name"
NODEGROUP_RESOURCE_LIMITS: Final = "volcano.sh/nodegroup-resource-limits"
NETWORK_TOPOLOGY_MODE: Final = "volcano.sh/network-topology-mode"
NETWORK_TOPOLOGY_HIGHEST_TIER: Final = "volcano.sh/network-topology-highest-tier"
NETWORK_TOPOLOGY_SOURCE: Final = "volcano.sh/network-topology-source"
CLOSED_BY_PARENT: Final = "volcano.sh/closed-by-parent"
RESOURCE_GROUP: Final = "volcano.sh/resource-group"
NODE_WARMUP: Final = "node.volcano.sh/warmup"

# Set by the controllers of flows and schedules, and by federation.
CREATED_BY_JOB_TEMPLATE: Final = "volcano.sh/createdByJobTemplate"
CREATED_BY_JOB_FLOW: Final = "volcano.sh/createdByJobFlow"
CRONJOB_SCHEDULED_TIMESTAMP: Final = "volcano.sh/cronjob-scheduled-timestamp"
FORWARD_CLUSTER: Final = "volcano.sh/forward-cluster"
BURST_NAME: Final = "volcano.sh/burst-name"
SILO_RESOURCE: Final = "volcano.sh/silo-resource"

# Between the node agent and the scheduler.
COLOCATION_CONFIG_NAME: Final = "volcano.sh/colocation-config-name"
COLOCATION_CONFIG: Final = "volcano.sh/colocation-config"
COLOCATION: Final = "volcano.sh/colocation"
OVERSUBSCRIPTION: Final = "volcano.sh/oversubscription"
OVERSUBSCRIPTION_TYPES: Final = "volcano.sh/oversubscription-types"
OVERSUBSCRIPTION_CPU: Final = "volcano.sh/oversubscription-cpu"
OVERSUBSCRIPTION_MEMORY: Final = "volcano.sh/oversubscription-memory"
OFFLINE_JOB_EVICTING: Final = "volcano.sh/offline-job-evicting"
EVICTING_CPU_HIGH_WATERMARK: Final = "volcano.sh/evicting-cpu-high-watermark"
EVICTING_CPU_LOW_WATERMARK: Final = "volcano.sh/evicting-cpu-low-watermark"
EVICTING_MEMORY_HIGH_WATERMARK: Final = "volcano.sh/evicting-memory-high-watermark"
EVICTING_MEMORY_LOW_WATERMARK: Final = "volcano.sh/evicting-memory-low-watermark"
NETWORK_BANDWIDTH_RATE: Final = "volcano.sh/network-bandwidth-rate"
BATCH_CPU: Final = "kubernetes.io/batch-cpu"
BATCH_MEMORY: Final = "kubernetes.io/batch-memory"

# What pods and queues say to single plugins of the scheduler.
STRATEGY_SCORING_TYPE: Final = "volcano.sh/resource-strategy-scoring-type"
STRATEGY_WEIGHT: Final = "volcano.sh/resource-strategy-weight"
NODEGROUP_LIMITS: Final = "volcano.sh/nodegroup-resource-limits"

# Kubernetes' own.
LAST_APPLIED_CONFIGURATION: Final = "kubectl.kubernetes.io/last-applied-configuration"

# Names, not keys.
SCHEDULER_NAME: Final = "volcano"
DEFAULT_QUEUE: Final = "default"
ROOT_QUEUE: Final = "root"
SCHEDULER_CONFIG_MAP: Final = "volcano-system/volcano-scheduler-configmap"
"""Where Volcano's chart puts the scheduler's configuration."""
SCHEDULER_CONFIG_KEY: Final = "volcano-scheduler.conf"

RUNNING_ESTIMATE: Final = "stromboli.sh/running-estimate"
"""Ours, on PodGroups: a job's `spec.runningEstimate`."""

RUN_SECONDS: Final = "stromboli.sh/run-seconds"
"""Ours, on pods: how long one runs on the virtual nodes of a simulation."""
