# Writes networks for the scripts.
check_PROGRAMS += %D%/network
%C%_network_SOURCES = %D%/network.c test/onnx/text.c test/onnx/write.c test/onnx/text.h test/onnx/write.h
app_tests = %D%/chunks.sh %D%/chosenchunks.sh %D%/commands.sh %D%/decoders.sh %D%/forward.sh %D%/generate.sh %D%/given.sh %D%/initial.sh %D%/effects.sh %D%/judges.sh %D%/datasets.sh %D%/misuse.sh %D%/options.sh %D%/plan.sh %D%/plancounts.sh %D%/sweep.sh \
  %D%/heals.sh %D%/memory.sh %D%/rivals.sh %D%/rollback.sh %D%/runs.sh %D%/signals.sh %D%/simulate.sh %D%/stops.sh %D%/whole.sh
tests += $(app_tests)
EXTRA_DIST += %D%/common.sh $(app_tests)
tests += %D%/published.sh
EXTRA_DIST += %D%/published.sh %D%/published.py %D%/published/runs.tsv %D%/published/vtrain-multi.tsv %D%/published/vtrain-single.tsv
tests += %D%/scale.sh
EXTRA_DIST += %D%/scale.sh %D%/scale.py
# Tables of doc/performance.md: how networks scale. Minutes.
.PHONY: scale
scale: renga$(EXEEXT)
	python3 $(srcdir)/%D%/scale.py ./renga$(EXEEXT) -machines $(srcdir)/share/renga/machines -table scale.md
# All rows, for doc/performance.md: hours of a core.
.PHONY: published
published: renga$(EXEEXT)
	python3 $(srcdir)/%D%/published.py ./renga$(EXEEXT) -machines $(srcdir)/share/renga/machines -cache published.json -jobs 2 -table published.md
tests += %D%/lanes.sh %D%/tensor.sh %D%/sequence.sh
EXTRA_DIST += %D%/lanes.sh %D%/tensor.sh %D%/sequence.sh
tests += %D%/statistics.sh
EXTRA_DIST += %D%/statistics.sh
tests += %D%/hiding.sh
EXTRA_DIST += %D%/hiding.sh
tests += %D%/async.sh
EXTRA_DIST += %D%/async.sh
tests += %D%/owners.sh
EXTRA_DIST += %D%/owners.sh
tests += %D%/placement.sh
EXTRA_DIST += %D%/placement.sh
tests += %D%/precision.sh
EXTRA_DIST += %D%/precision.sh
tests += %D%/book.sh
tests += %D%/words.sh %D%/limits.sh
EXTRA_DIST += %D%/limits.sh %D%/limits/matrix.py %D%/options.tsv %D%/optionclasses.py
EXTRA_DIST += %D%/words.sh %D%/words/words.py %D%/words/words.tsv
EXTRA_DIST += %D%/book.sh %D%/book/renga %D%/book/mpiexec %D%/book/ssh %D%/book/sbatch
tests += %D%/rows.sh
EXTRA_DIST += %D%/rows.sh
tests += %D%/shard.sh %D%/zero.sh
EXTRA_DIST += %D%/shard.sh %D%/zero.sh
tests += %D%/watch.sh %D%/pipes.sh %D%/secrets.sh
EXTRA_DIST += %D%/pipes.sh %D%/secrets.sh
EXTRA_DIST += %D%/watch.sh %D%/events.py %D%/page.py
tests += %D%/schedules.sh
EXTRA_DIST += %D%/schedules.sh
tests += %D%/recompute.sh %D%/segments.sh
EXTRA_DIST += %D%/recompute.sh %D%/segments.sh
tests += %D%/shortbatch.sh
EXTRA_DIST += %D%/shortbatch.sh
tests += %D%/timeline.sh
EXTRA_DIST += %D%/timeline.sh %D%/timeline.py
tests += %D%/offload.sh
EXTRA_DIST += %D%/offload.sh
tests += %D%/learners.sh
EXTRA_DIST += %D%/learners.sh
tests += %D%/isa.sh
EXTRA_DIST += %D%/isa.sh
tests += %D%/environment.sh
EXTRA_DIST += %D%/environment.sh
tests += %D%/huggingface.sh
EXTRA_DIST += %D%/huggingface.sh %D%/huggingface.py %D%/huggingface.json
tests += %D%/chat.sh
EXTRA_DIST += %D%/chat.sh
tests += %D%/packed.sh
EXTRA_DIST += %D%/packed.sh
tests += %D%/adapters.sh %D%/divided.sh %D%/folders.sh %D%/larger.sh
EXTRA_DIST += %D%/larger.sh %D%/divided.sh %D%/folders.sh %D%/adapters.sh %D%/adapters.py %D%/adapters.json
