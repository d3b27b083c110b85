TESTS += %D%/commands.sh %D%/misuse.sh
EXTRA_DIST += %D%/commands.sh %D%/common.sh %D%/misuse.sh
