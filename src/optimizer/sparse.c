/* Optimizer: whether tables that are read by rows are updated by rows. */
#include "optimizerimpl.h"

/*@
   RengaOptimizerSetSparse - whether tables of which rows are gathered are updated by rows

   Input:
   . sparse - RENGA_SPARSE_OFF: each step updates all rows of all parameters. RENGA_SPARSE_LAZY: a
     parameter of which one Gather, and nothing else, reads rows has gradients of the rows that a
     step read. Only these are updated, where they are fewer bytes than the table.
     RENGA_SPARSE_EXACT: it has such gradients, and all of its rows are updated, the others as
     gradients of 0 have it

   Options:
   . -optimizer_sparse - off, lazy or exact

   Errors: RENGA_ERR_ARGUMENT for another number.

   Notes: with RENGA_SPARSE_EXACT parameters are the same to the bit as with RENGA_SPARSE_OFF (the
   norm is added up in another order, which only a clip_norm feels), and so they are with
   RENGA_SPARSE_LAZY by sgd without momentum and weight decay. With others they are not: moments of
   a row stay as they are in steps that do not read it, and so does the row, whatever its decay;
   corrections of Adam's moments count all steps. A row that is read gets the update that it gets in
   a whole table. That is the rule of PyTorch's SparseAdam, whose epsilon is added before the second
   moment is corrected. Which parameters it is follows from network and batch, so that results do
   not depend on the layout. Networks in fp32 or tf32 on devices ref, cpu and far have it.

   See also: RengaOptimizerGetSparse(), RengaPipelineView()
@*/
RengaErrorCode RengaOptimizerSetSparse(RengaOptimizer optimizer, RengaSparse sparse)
{
  RengaCheckPointer(optimizer);
  RengaCheck(sparse >= RENGA_SPARSE_OFF && sparse <= RENGA_SPARSE_EXACT, MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT, "%d is no RengaSparse", (int)sparse);
  optimizer->sparse = sparse;
  optimizer->hdr.state = RENGA_STATE_NEW;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOptimizerGetSparse(RengaOptimizer optimizer, RengaSparse *sparse)
{
  RengaCheckPointers(optimizer, sparse);
  *sparse = optimizer->sparse;
  return RENGA_SUCCESS;
}

const char *RengaSparseName(RengaSparse sparse)
{
  static const char *const names[] = {"off", "lazy", "exact"};
  return names[sparse];
}

/* A rule from outside may look at more than rows. */
RengaErrorCode RengaOptimizerCheckSparse(RengaOptimizer optimizer)
{
  RengaCheck(!optimizer->rule || optimizer->sparse == RENGA_SPARSE_OFF, optimizer->hdr.comm,
             RENGA_ERR_SUPPORT,
             "-optimizer_sparse %s is for sgd, adam and adamw; %s is a rule of the program, and it "
             "is not known whether it may update rows of a parameter: use -optimizer_sparse off",
             RengaSparseName(optimizer->sparse), optimizer->hdr.type_name);
  return RENGA_SUCCESS;
}
