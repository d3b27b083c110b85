check_PROGRAMS += %D%/trainer
tests += %D%/trainer
