check_PROGRAMS += %D%/file
%C%_file_SOURCES = %D%/file.c %D%/tensors.h
TESTS += %D%/file
