/* The header that every handle begins with. */
#pragma once
#include "rengasys.h"

struct _p_RengaObject {
  const char *class_name;
  MPI_Comm comm;   /* Renga's private duplicate, shared by all objects made from one RengaComm */
  RengaComm owner; /* holds a reference; NULL in a RengaComm itself */
  int references;
  char *type_name, *name, *prefix;
  RengaState state;
  RengaErrorCode (*destroy)(void *object); /* frees what the class holds, not the header */
};

/* First member of each object struct: the header and the table of functions of the type. */
#define RENGAHEADER(ops_struct)                                                                    \
  struct _p_RengaObject hdr;                                                                       \
  ops_struct ops[1]

/* Allocate an object of the given size; parent is any object (normally a RengaComm). */
RengaErrorCode RengaHeaderCreate(void *parent, const char *class_name, size_t size,
                                 RengaErrorCode (*destroy)(void *), void *pointer_to_object);
RengaErrorCode RengaHeaderReference(void *object);
/* A reference to object, or NULL, in place of the one that a member holds, which is dropped. */
RengaErrorCode RengaHeaderReplace(void *pointer_to_held, void *object);
/* Drops a reference, nulls the pointer. */
RengaErrorCode RengaHeaderDestroy(void *pointer_to_object);
RengaErrorCode RengaHeaderSetTypeName(void *object, const char *type_name);

/* Whoever destroys or forgets goes on after an error, and returns the first one. */
static inline void RengaKeepFirst_Private(RengaErrorCode *first, RengaErrorCode code)
{
  if (!*first) *first = code;
}

/* Types by name. A row whose create is NULL was not built in, and says so when asked for. */
typedef struct {
  const char *name;
  RengaErrorCode (*create)(void *object);
  const char *needs; /* what a build needs to have it */
} RengaTypeRow;
RengaErrorCode RengaTypeFind(const char *class_name, const RengaTypeRow rows[], const char *name,
                             const RengaTypeRow **row); /* error with the closest name */

/* A type from outside, beside those of rows: rule, of the class's own struct, is kept, not copied.
   rows: those inside, or NULL; option: the one that chooses a type, or NULL. */
RengaErrorCode RengaTypeRegister_Private(const char *class_name, const RengaTypeRow rows[],
                                         const char *option, const char *name, const void *rule);
const void *RengaTypeOutside_Private(const char *class_name, const char *name); /* NULL: none */
const void *RengaTypeOutsideAt_Private(const char *class_name, int index);      /* NULL: no more */

/* A class whose objects have a type: where its types come from and how one follows another. */
typedef struct {
  const char *name;                      /* "RengaSchedule" */
  const char *option;                    /* the one that chooses a type */
  const RengaTypeRow *types;             /* built in; the last row is NULL */
  RengaErrorCode (*reset)(void *object); /* frees what the type so far made; NULL: nothing */
  /* Gives the object a type that a program registered; NULL: the class takes none. */
  RengaErrorCode (*adopt)(void *object, const void *rule);
} RengaClass;
RengaErrorCode RengaClassRegisterType_Private(const RengaClass *class, const char *name,
                                              const void *rule);
/* Finds the type, ends the one so far, creates the new one; the object is as if it were new. */
RengaErrorCode RengaClassSetType_Private(const RengaClass *class, void *object, const char *type,
                                         const char *function);

/* The class that a handle's type says, NULL where the pointer is no handle. Programs may hand over
   a handle of another class by a cast, or by a binding that has none. */
#define RENGA_CLASS_OF(pointer)                                                                    \
  _Generic((pointer), struct _p_RengaComm *                                                        \
           : "RengaComm", struct _p_RengaCheckpoint *                                              \
           : "RengaCheckpoint", struct _p_RengaData *                                              \
           : "RengaData", struct _p_RengaDevice *                                                  \
           : "RengaDevice", struct _p_RengaGraph *                                                 \
           : "RengaGraph", struct _p_RengaMachine *                                                \
           : "RengaMachine", struct _p_RengaOptimizer *                                            \
           : "RengaOptimizer", struct _p_RengaPartition *                                          \
           : "RengaPartition", struct _p_RengaPipeline *                                           \
           : "RengaPipeline", struct _p_RengaPlan *                                                \
           : "RengaPlan", struct _p_RengaProfile *                                                 \
           : "RengaProfile", struct _p_RengaSchedule *                                             \
           : "RengaSchedule", struct _p_RengaSettings *                                            \
           : "RengaSettings", struct _p_RengaTrainer *                                             \
           : "RengaTrainer", struct _p_RengaViewer *                                               \
           : "RengaViewer", default                                                                \
           : NULL)
/* true where class_name is NULL. */
bool RengaIsOfClass_Private(const void *pointer_to_handle, const char *class_name);

#define RengaCheckPointer(pointer) RengaCheckPointerOf(__func__, pointer)
/* Of what a public function was given, in one that checks it for several. */
#define RengaCheckPointerOf(function, pointer)                                                     \
  do {                                                                                             \
    RengaCheck((pointer) != NULL, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "%s: %s is a null pointer",   \
               function, #pointer);                                                                \
    RengaCheck(RengaIsOfClass_Private(&(pointer), RENGA_CLASS_OF(pointer)), MPI_COMM_SELF,         \
               RENGA_ERR_ARGUMENT, "%s: %s is a handle of another class than %s", function,        \
               #pointer, RENGA_CLASS_OF(pointer) ? RENGA_CLASS_OF(pointer) : "");                  \
  } while (0)
/* The same of two to five. */
#define RengaCheckPointers(...)                                                                    \
  do {                                                                                             \
    RENGA_POINTERS_OF(__VA_ARGS__, RENGA_POINTERS_5, RENGA_POINTERS_4, RENGA_POINTERS_3,           \
                      RENGA_POINTERS_2, )                                                          \
    (__VA_ARGS__);                                                                                 \
  } while (0)
#define RENGA_POINTERS_OF(a, b, c, d, e, which, ...) which
#define RENGA_POINTERS_2(a, b)                                                                     \
  RengaCheckPointer(a);                                                                            \
  RengaCheckPointer(b)
#define RENGA_POINTERS_3(a, b, c)                                                                  \
  RENGA_POINTERS_2(a, b);                                                                          \
  RengaCheckPointer(c)
#define RENGA_POINTERS_4(a, b, c, d)                                                               \
  RENGA_POINTERS_3(a, b, c);                                                                       \
  RengaCheckPointer(d)
#define RENGA_POINTERS_5(a, b, c, d, e)                                                            \
  RENGA_POINTERS_4(a, b, c, d);                                                                    \
  RengaCheckPointer(e)
/* Of functions that return a value and no code: a null handle is an error for the handler, and
   gives that value. */
#define RengaCheckHandle(handle, value)                                                            \
  do {                                                                                             \
    if ((handle) == NULL || !RengaIsOfClass_Private(&(handle), RENGA_CLASS_OF(handle))) {          \
      RengaErrorRaise(MPI_COMM_SELF, RENGA_ERR_ARGUMENT, __func__, __FILE__, __LINE__,             \
                      "%s: %s is %s", __func__, #handle,                                           \
                      (handle) == NULL ? "a null pointer" : "a handle of another class");          \
      return value;                                                                                \
    }                                                                                              \
  } while (0)
#define RengaCheckState(object, wanted, call)                                                      \
  RengaCheck((object)->hdr.state >= (wanted), MPI_COMM_SELF, RENGA_ERR_ORDER,                      \
             "%s is not ready: call %s first", (object)->hdr.class_name, call)

/* A table of a file (RengaOptionsReadTable) that may have sections: each begins with a key of the
   table and its name. What is written before the first holds for all. */
typedef struct {
  int count;
  const RengaOptionRow *rows; /* [count] */
  const char *key;            /* that begins a section; NULL: there are none */
  int most;                   /* sections */
  int shared;                 /* rows before this one are not for sections, */
  int own;                    /* and so many from there on each section says for itself */
  size_t size;                /* of the struct of a section */
} RengaOptionTable;
/* Collective: base is [1 + most] structs, what is before the sections and then each of them with
   what holds for all; without sections keys may be missing in none, else in no section. */
RengaErrorCode RengaOptionsReadSections_Private(MPI_Comm comm, const char *file,
                                                const RengaOptionTable *table, void *base,
                                                int *n_sections);
