check_PROGRAMS += %D%/file %D%/class %D%/faults %D%/resume %D%/rollback %D%/parts %D%/async %D%/memory
%C%_parts_SOURCES = %D%/parts.c test/persistent/cuts.h
%C%_file_SOURCES = %D%/file.c %D%/tensors.h
%C%_class_SOURCES = %D%/class.c %D%/standin.h %D%/tensors.h
%C%_faults_SOURCES = %D%/faults.c %D%/standin.h %D%/tensors.h
%C%_async_SOURCES = %D%/async.c %D%/standin.h %D%/tensors.h
%C%_memory_SOURCES = %D%/memory.c %D%/standin.h %D%/tensors.h
%C%_resume_SOURCES = %D%/resume.c
%C%_rollback_SOURCES = %D%/rollback.c
tests += %D%/file %D%/parts %D%/class %D%/resume %D%/rollback %D%/faults.sh %D%/diskfull.sh %D%/async %D%/memory %D%/kernels.sh
EXTRA_DIST += %D%/faults.sh %D%/diskfull.sh %D%/kernels.sh

# All define functions that the library has too; where it is linked in whole, theirs come first.
%C%_class_LDFLAGS = $(AM_LDFLAGS) -Wl,-z,muldefs
%C%_async_LDFLAGS = $(AM_LDFLAGS) -Wl,-z,muldefs
%C%_memory_LDFLAGS = $(AM_LDFLAGS) -Wl,-z,muldefs
%C%_faults_LDFLAGS = $(AM_LDFLAGS) -Wl,-z,muldefs

check_PROGRAMS += %D%/extra
tests += %D%/extra
%C%_extra_SOURCES = %D%/extra.c
check_PROGRAMS += %D%/safetensors
tests += %D%/safetensors
%C%_safetensors_SOURCES = %D%/safetensors.c
