check_PROGRAMS += %D%/file %D%/class %D%/faults
%C%_file_SOURCES = %D%/file.c %D%/tensors.h
%C%_class_SOURCES = %D%/class.c %D%/standin.h %D%/tensors.h
%C%_faults_SOURCES = %D%/faults.c %D%/standin.h %D%/tensors.h
TESTS += %D%/file %D%/class %D%/faults.sh %D%/diskfull.sh
EXTRA_DIST += %D%/faults.sh %D%/diskfull.sh
