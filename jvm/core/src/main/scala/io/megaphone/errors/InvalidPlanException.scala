// SPDX-License-Identifier: Apache-2.0
package io.megaphone.errors

/** What was asked of a table or a plan cannot be. Nothing has changed when it is thrown: all checks
  * come first.
  *
  * The message is one sentence for the user: what was wrong, what is allowed, what to do.
  */
sealed abstract class InvalidPlanException(override val condition: String, text: String)
    extends IllegalArgumentException(text)
    with MegaphoneError

object InvalidPlanException {

  final class BinsNotPowerOfTwo(val bins: Int, binsMax: Int)
      extends InvalidPlanException(
        "BINS_NOT_POWER_OF_TWO",
        s"The number of bins is $bins, but it must be a power of two from 1 to $binsMax; " +
          s"use ${powerOfTwoNear(bins, binsMax)}, for example."
      )

  final class BinsDiffer(val bins: Int, val otherBins: Int)
      extends InvalidPlanException(
        "BINS_DIFFER",
        s"A table of $bins bins cannot turn into one of $otherBins, because the number of bins " +
          "is fixed for the life of a checkpoint; keep it, or start from a new checkpoint."
      )

  final class InvalidWorkers(val workers: Int, workersMax: Int)
      extends InvalidPlanException(
        "INVALID_WORKERS",
        s"The number of workers is $workers, but it must be from 1 to $workersMax; " +
          "ask for one in that range."
      )

  final class MoreWorkersThanBins(val workers: Int, val bins: Int)
      extends InvalidPlanException(
        "INVALID_WORKERS",
        s"The number of workers is $workers, but it must be from 1 to $bins, because there are " +
          s"$bins bins and a worker without a bin is idle; ask for one in that range."
      )

  final class UnknownBin(val bin: Int, val bins: Int)
      extends InvalidPlanException(
        "UNKNOWN_BIN",
        s"There is no bin $bin, only bins 0 to ${bins - 1}; name one of these."
      )

  final class UnknownWorker(val worker: Int, val workers: Int)
      extends InvalidPlanException(
        "UNKNOWN_WORKER",
        s"There is no worker $worker, only workers 0 to ${workers - 1}; name one of these, or " +
          "rescale first."
      )

  final class DuplicateBin(val bin: Int)
      extends InvalidPlanException(
        "DUPLICATE_BIN",
        s"Bin $bin is moved twice, but a bin has one target; keep one of its moves."
      )

  final class WorkerNotEmpty(val worker: Int, val bin: Int, val workers: Int)
      extends InvalidPlanException(
        "WORKER_NOT_EMPTY",
        s"Worker $worker still owns bin $bin, but with $workers workers the last is " +
          s"${workers - 1}; move its bins away, or keep more workers."
      )

  final class NoWorkersLeft(val workers: Int)
      extends InvalidPlanException(
        "NO_WORKERS_LEFT",
        s"All $workers workers are to be emptied, but at least one must keep the bins; name " +
          "fewer workers, or rescale first."
      )

  final class EmptyPlan
      extends InvalidPlanException(
        "EMPTY_PLAN",
        "The plan asks for nothing, but it needs at least one bin or worker to move; name one."
      )

  final class UnknownStrategy(val text: String, val allowed: Seq[String])
      extends InvalidPlanException(
        "UNKNOWN_STRATEGY",
        s"There is no strategy '$text', only ${allowed.mkString(", ")}; choose one of these."
      )

  final class InvalidBatchSize(val text: String, binsMax: Int)
      extends InvalidPlanException(
        "INVALID_BATCH_SIZE",
        s"The strategy batched cannot move $text bins a step, but a whole number from 1 to " +
          s"$binsMax; give one in that range, or leave it out."
      )

  final class UnknownMode(val text: String, val allowed: Seq[String])
      extends InvalidPlanException(
        "UNKNOWN_MODE",
        s"There is no transfer mode '$text', only ${allowed.mkString(", ")}; choose one of these."
      )

  final class DamagedTable(val reason: String)
      extends InvalidPlanException(
        "DAMAGED_TABLE",
        s"A stored routing table cannot be read: $reason; restore the checkpoint's plan log " +
          "from a copy."
      )

  private def powerOfTwoNear(bins: Int, binsMax: Int): Int =
    if (bins < 1) 1
    else if (bins >= binsMax) binsMax
    else Integer.highestOneBit(bins)
}
