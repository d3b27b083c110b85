TESTS += %D%/commands.sh %D%/misuse.sh %D%/signals.sh
EXTRA_DIST += %D%/commands.sh %D%/common.sh %D%/misuse.sh %D%/signals.sh
