# Short trainings whose numbers are recorded.
golden_tests = %D%/golden.sh %D%/whole.sh
tests += $(golden_tests)
EXTRA_DIST += $(golden_tests) %D%/golden.py %D%/cases.tsv %D%/expected.tsv %D%/lists.txt %D%/lanes.plan %D%/part.plan %D%/uneven.plan %D%/moved.plan
