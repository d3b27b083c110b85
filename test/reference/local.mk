# Networks against PyTorch's losses and gradients: those of the folder networks, larger ones where they are.
reference_tests = %D%/gradients %D%/training
check_PROGRAMS += $(reference_tests)
tests += $(reference_tests) %D%/builders.sh %D%/fp8.sh %D%/exporters.sh %D%/huggingface.sh %D%/generation.sh %D%/packed.sh %D%/tokens.sh %D%/chat.sh %D%/adapters.sh %D%/divided.sh
EXTRA_DIST += %D%/python.sh %D%/generation.sh %D%/generation.py %D%/divided.sh %D%/divided.py %D%/huggingface.sh %D%/huggingface.py %D%/packed.sh %D%/packed.py %D%/tokens.sh %D%/tokens.py %D%/chat.sh %D%/chat.py %D%/adapters.sh %D%/adapters.py %D%/builders.sh %D%/builders.py %D%/fp8.sh %D%/fp8.py %D%/exporters.sh %D%/exporters.py %D%/networks.py %D%/networks
%C%_gradients_SOURCES = %D%/gradients.c %D%/reference.c %D%/reference.h test/onnx/execute.c
%C%_gradients_LDADD = $(LDADD) $(HDF5_LIBS)
%C%_training_SOURCES = %D%/training.c %D%/reference.c %D%/reference.h
%C%_training_LDADD = $(LDADD) $(HDF5_LIBS)
