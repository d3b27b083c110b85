librenga_la_SOURCES += %D%/table.c %D%/layout.c %D%/head.c %D%/transfer.c %D%/write.c %D%/read.c \
  %D%/directory.c %D%/signals.c %D%/options.c %D%/checkpoint.c \
  %D%/lock.c %D%/programtensors.c %D%/save.c %D%/contents.c %D%/event.c %D%/keep.c %D%/asynchronous.c %D%/background.c %D%/fragment.c %D%/memory.c %D%/memoryfind.c %D%/inmemory.c %D%/scale.c %D%/adapters.c %D%/merge.c %D%/resume.c %D%/initial.c %D%/export.c %D%/exportfile.c %D%/format.c %D%/view.c \
  %D%/safetensors/map.c %D%/safetensors/header.c %D%/safetensors/folder.c %D%/safetensors/names.c %D%/safetensors/part.c %D%/safetensors/write.c %D%/safetensors/beside.c %D%/safetensors/adapter.c
noinst_HEADERS += %D%/file.h %D%/adapters.h %D%/merge.h %D%/safetensors/adapter.h %D%/checkpointimpl.h %D%/lock.h %D%/writer.h %D%/memory.h %D%/fragment.h %D%/safetensors/safetensors.h %D%/safetensors/write.h
