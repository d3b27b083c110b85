# Writes networks for the scripts.
check_PROGRAMS += %D%/network
%C%_network_SOURCES = %D%/network.c test/onnx/text.c test/onnx/write.c test/onnx/text.h test/onnx/write.h
TESTS += %D%/commands.sh %D%/forward.sh %D%/given.sh %D%/initial.sh %D%/datasets.sh %D%/misuse.sh %D%/plan.sh %D%/rivals.sh %D%/runs.sh %D%/signals.sh %D%/stops.sh %D%/whole.sh
EXTRA_DIST += %D%/commands.sh %D%/forward.sh %D%/given.sh %D%/initial.sh %D%/datasets.sh %D%/common.sh %D%/misuse.sh %D%/plan.sh %D%/rivals.sh %D%/runs.sh %D%/signals.sh %D%/stops.sh %D%/whole.sh
