librenga_la_SOURCES += %D%/bytepairs.c %D%/convert.c %D%/data.c %D%/fields.c %D%/file.c %D%/fileread.c %D%/hdf5.c %D%/hdf5origin.c %D%/hdf5reason.c %D%/hdf5write.c %D%/idx.c %D%/names.c %D%/shuffle.c %D%/hide.c %D%/owners.c %D%/order.c %D%/select.c \
  %D%/synthetic.c %D%/text.c %D%/tokens.c \
  %D%/encode.c %D%/packing.c %D%/documents.c %D%/chat.c %D%/template.c %D%/csv.c %D%/csvread.c %D%/npy.c %D%/pairs.c %D%/ratings.c %D%/read.c %D%/vocabulary.c %D%/words.c \
  %D%/vocabularyfile.c %D%/tokenizer/canonical.c %D%/tokenizer/categories.c %D%/tokenizer/file.c %D%/tokenizer/frame.c %D%/tokenizer/json.c %D%/tokenizer/models.c %D%/tokenizer/normalize.c %D%/tokenizer/expression.c %D%/tokenizer/pieces.c \
  %D%/tokenizer/sign.c %D%/tokenizer/split.c %D%/tokenizer/splitter.c %D%/images.c %D%/picture.c %D%/exif.c %D%/png.c %D%/jpeg.c %D%/moments.c \
  %D%/digest.c %D%/places.c %D%/placement.c %D%/store.c %D%/cache.c %D%/load.c %D%/exchange.c
noinst_HEADERS += include/renga/private/epochs.h %D%/dataimpl.h %D%/csv.h %D%/hdf5impl.h %D%/vocabulary.h %D%/packing.h %D%/chat.h %D%/picture.h %D%/placement.h %D%/tokenizer/expression.h %D%/tokenizer/sign.h %D%/tokenizer/steps.h %D%/tokenizer/unicode.h
