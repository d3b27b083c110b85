# Writes networks for the scripts.
check_PROGRAMS += %D%/network
%C%_network_SOURCES = %D%/network.c test/onnx/text.c test/onnx/write.c test/onnx/text.h test/onnx/write.h
app_tests = %D%/chunks.sh %D%/commands.sh %D%/forward.sh %D%/given.sh %D%/initial.sh %D%/datasets.sh %D%/misuse.sh %D%/options.sh %D%/plan.sh \
  %D%/rivals.sh %D%/rollback.sh %D%/runs.sh %D%/signals.sh %D%/stops.sh %D%/whole.sh
TESTS += $(app_tests)
EXTRA_DIST += %D%/common.sh $(app_tests)
TESTS += %D%/hiding.sh
EXTRA_DIST += %D%/hiding.sh
TESTS += %D%/lanes.sh
EXTRA_DIST += %D%/lanes.sh
TESTS += %D%/precision.sh
EXTRA_DIST += %D%/precision.sh
