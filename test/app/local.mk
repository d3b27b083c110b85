TESTS += %D%/commands.sh %D%/forward.sh %D%/given.sh %D%/initial.sh %D%/datasets.sh %D%/misuse.sh %D%/plan.sh %D%/rivals.sh %D%/runs.sh %D%/signals.sh %D%/stops.sh
EXTRA_DIST += %D%/commands.sh %D%/forward.sh %D%/given.sh %D%/initial.sh %D%/datasets.sh %D%/common.sh %D%/misuse.sh %D%/plan.sh %D%/rivals.sh %D%/runs.sh %D%/signals.sh %D%/stops.sh
