# Short trainings whose numbers are recorded, and plans.
golden_tests = %D%/golden.sh %D%/whole.sh %D%/plans.sh %D%/wholeplans.sh
tests += $(golden_tests)
EXTRA_DIST += $(golden_tests) %D%/golden.py %D%/cases.tsv %D%/expected.tsv %D%/lists.txt %D%/lanes.plan %D%/part.plan %D%/uneven.plan %D%/moved.plan
EXTRA_DIST += %D%/plans.py %D%/randomplans.py %D%/plans.tsv %D%/plans.expected.tsv %D%/machines
