/* Objects: a header with a count of references, and a type. */
#include "renga/private/object.h"
#include <string.h>

RengaErrorCode RengaHeaderCreate(void *parent, const char *class_name, size_t size,
                                 RengaErrorCode (*destroy)(void *), void *pointer_to_object)
{
  char *memory = NULL;
  RengaCall(RengaMalloc(size, &memory));
  RengaObject object = (RengaObject)(void *)memory, from = parent;
  object->class_name = class_name;
  object->references = 1;
  object->destroy = destroy;
  object->comm = from ? from->comm : MPI_COMM_NULL;
  object->state = RENGA_STATE_NEW;
  if (from) {
    /* Only a RengaComm has no owner: it is the communicator itself. */
    object->owner = from->owner ? from->owner : (RengaComm)parent;
    RengaCall(RengaHeaderReference(object->owner));
  }
  memcpy(pointer_to_object, &object, sizeof object);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaHeaderReference(void *object)
{
  RengaCheckPointer(object);
  ((RengaObject)object)->references++;
  return RENGA_SUCCESS;
}

bool RengaIsOfClass_Private(const void *pointer_to_handle, const char *class_name)
{
  RengaObject object;
  if (!class_name) return true;
  memcpy(&object, pointer_to_handle, sizeof object);
  /* the linker has one text for all that are equal, as a rule */
  return object->class_name == class_name || strcmp(object->class_name, class_name) == 0;
}

RengaErrorCode RengaHeaderDestroy(void *pointer_to_object)
{
  RengaObject object, nothing = NULL;
  RengaCheck(pointer_to_object, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "an object is to be destroyed by a null pointer: give the address of its handle");
  memcpy(&object, pointer_to_object, sizeof object);
  memcpy(pointer_to_object, &nothing, sizeof nothing);
  if (object == NULL || --object->references > 0) return RENGA_SUCCESS;
  RengaErrorCode code = object->destroy ? object->destroy(object) : RENGA_SUCCESS;
  RengaComm owner = object->owner;
  RengaFree(&object->type_name);
  RengaFree(&object->name);
  RengaFree(&object->prefix);
  RengaFree(&object);
  if (owner) RengaCall(RengaHeaderDestroy(&owner));
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaHeaderReplace(void *pointer_to_held, void *object)
{
  if (object) RengaCall(RengaHeaderReference(object));
  const RengaErrorCode code = RengaHeaderDestroy(pointer_to_held);
  memcpy(pointer_to_held, &object, sizeof object);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReplaceString(char **place, const char *text)
{
  char *copy;
  RengaCall(RengaStringCopy(text, &copy));
  RengaFree(place);
  *place = copy;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaHeaderSetTypeName(void *object, const char *type_name)
{
  RengaCheckPointer(object);
  RengaCall(ReplaceString(&((RengaObject)object)->type_name, type_name));
  return RENGA_SUCCESS;
}

/*@
   RengaObjectGetComm - the communicator of an object

   Input:
   . object - any object of Renga

   Output:
   . comm - Renga's private duplicate, lent, and shared by all objects made from one RengaComm

   See also: RengaCommCreate()
@*/
RengaErrorCode RengaObjectGetComm(void *object, MPI_Comm *comm)
{
  RengaCheckPointers(object, comm);
  *comm = ((RengaObject)object)->comm;
  return RENGA_SUCCESS;
}

/*@
   RengaObjectSetName - a name for views and messages

   Input:
   . object - any object of Renga
   . name - copied; NULL takes the name away

   See also: RengaObjectSetOptionsPrefix()
@*/
RengaErrorCode RengaObjectSetName(void *object, const char *name)
{
  RengaCheckPointer(object);
  RengaCall(ReplaceString(&((RengaObject)object)->name, name));
  return RENGA_SUCCESS;
}

/*@
   RengaObjectSetOptionsPrefix - options of this object are -PREFIXname before -name

   Input:
   . object - any object of Renga
   . prefix - copied; for instance "teacher_"

   Notes: name the prefix with RengaOptionsAddPrefix before RengaInitialize, so that the command
   line may use it.

   See also: RengaOptionsAddPrefix()
@*/
RengaErrorCode RengaObjectSetOptionsPrefix(void *object, const char *prefix)
{
  RengaCheckPointer(object);
  RengaCall(ReplaceString(&((RengaObject)object)->prefix, prefix));
  if (prefix) RengaCall(RengaOptionsAddPrefix(prefix));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaClassRegisterType_Private(const RengaClass *class, const char *name,
                                              const void *rule)
{
  RengaCall(RengaTypeRegister_Private(class->name, class->types, class->option, name, rule));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaClassSetType_Private(const RengaClass *class, void *object, const char *type,
                                         const char *function)
{
  const RengaTypeRow *row = NULL;
  RengaCheckPointerOf(function, object);
  RengaCheckPointerOf(function, type);
  const void *rule = class->adopt ? RengaTypeOutside_Private(class->name, type) : NULL;
  if (!rule) RengaCall(RengaTypeFind(class->name, class->types, type, &row));
  if (class->reset) RengaCall(class->reset(object));
  RengaCall(rule ? class->adopt(object, rule) : row->create(object));
  RengaCall(RengaHeaderSetTypeName(object, type));
  ((RengaObject)object)->state = RENGA_STATE_NEW;
  return RENGA_SUCCESS;
}
