librenga_la_SOURCES += %D%/error.c %D%/agree.c %D%/abort.c %D%/wait.c %D%/watch.c %D%/watchlife.c %D%/notice.c %D%/guard.c %D%/memory.c %D%/fault.c %D%/closedmemory.c %D%/object.c %D%/type.c %D%/name.c %D%/text.c \
  %D%/optionvalue.c %D%/optionname.c %D%/options.c %D%/optionread.c %D%/optionparse.c %D%/optionhelp.c %D%/viewer.c %D%/random.c %D%/hash.c \
  %D%/gather.c %D%/limit.c %D%/image.c %D%/open.c %D%/path.c %D%/sharedtext.c %D%/output.c %D%/log.c %D%/logview.c %D%/trace.c %D%/launch.c %D%/version.c %D%/signs.c %D%/start.c
noinst_HEADERS += %D%/sys.h %D%/watch.h include/renga/private/choice.h include/renga/private/wait.h include/renga/private/signs.h include/renga/private/start.h include/renga/private/gather.h \
  include/renga/private/hash.h include/renga/private/closed.h include/renga/private/log.h include/renga/private/fault.h include/renga/private/image.h include/renga/private/open.h include/renga/private/path.h include/renga/private/shared.h include/renga/private/output.h include/renga/private/quiet.h include/renga/private/limit.h \
  include/renga/private/packages.h include/renga/private/number.h include/renga/private/pattern.h
