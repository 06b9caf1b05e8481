// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

/** Bugs that can be planted in the simulated query, each the one that a schedule (H1 …) warns of.
  * The real code stays as it is; what calls it goes wrong.
  *
  * @param narrowed
  *   makes of any schedule one that may show it
  */
sealed abstract class Bug(val schedule: String, val narrowed: Setup => Setup = identity)

object Bug {

  /** H1: a bin that is on this executor is taken as it is, whatever version its worker's holding
    * has here.
    */
  case object RelabelByVersion extends Bug("H1")

  /** H2: tails are served and applied by version, whichever attempt made them. */
  case object TailOfOtherAttempt extends Bug("H2", _.withoutStandbys.copy(isV2 = true))

  /** H3: the head in memory is taken for the one that was accepted. */
  case object LastHeadForAccepted extends Bug("H3")

  /** H4: bins are compacted at their commit, before it is settled. */
  case object CompactionAboveSettled extends Bug("H4")

  /** H5: the stores of a step's batch go by the tables of the batch before. */
  case object StaleTables extends Bug("H5")

  /** H6: a seal whose number is taken is appended at the next. */
  case object SealAnyway extends Bug("H6", _.withFaults(Fault.DriverPauses, Fault.AppendUnsure))

  /** H6, at the start of a run: the plan log is read after the look at the commit log, so that a
    * start record may void steps that a newer run has sealed and run.
    */
  case object LogReadLate extends Bug("H6")

  /** H7: a step moves the bins of a group's first operator only. */
  case object GroupSplit extends Bug("H7")

  /** H8: seals of batches that were deleted stay in force. */
  case object VoidSealsKept extends Bug("H8", _.withFaults(Fault.GoesBack))

  /** H9: writings of a file cannot be told apart, so that offsets into an overwritten one are
    * trusted.
    */
  case object WritersAlike extends Bug("H9")

  /** H11: the image of a batch that is being written is published as the settled one. */
  case object UnsettledImage
      extends Bug(
        "H11",
        _.withoutStandbys.withFaults(Fault.TaskFails, Fault.DriverDies).copy(isV2 = true)
      )

  /** H12: each worker deletes the files of its own folder that it no longer needs. */
  case object OwnerDeletes extends Bug("H12")

  /** H13: the plan log is believed, whatever the state's files say of the tables that they were
    * written under.
    */
  case object PlanLogTrusted
      extends Bug("H13", _.withFaults(Fault.PlanLogFromEarlier, Fault.RecordReplaced))

  /** H14: a block that is missing is read as one of empty bins. */
  case object MissingIsEmpty extends Bug("H14")

  /** H15: an attempt that was given up shares the holding with the one that took its place. */
  case object ZombieShares extends Bug("H15")

  /** H16: a worker's blocks and bins go with its last store, as the last batch that has it ends. */
  case object CloseDropsOutgoing extends Bug("H16")

  /** H17: a run takes a batch for its own because the offset log did not have it when the query
    * started; another run has written it since.
    */
  case object OffsetLogSeenEarly
      extends Bug("H17", _.withFaults(Fault.DriverPauses, Fault.DriverDies))

  /** H21: blocks are made for moves between two workers of one executor, which nobody pulls. */
  case object PublishesToItself extends Bug("H21")

  /** H18: a message that a newer one has overtaken is obeyed. */
  case object OldMessageObeyed extends Bug("H18")

  /** H22: a run that was paused since before the plan log was trimmed appends at a number whose
    * record was deleted, and does not notice.
    */
  case object TrimUnseen extends Bug("H22")

  /** The records of the plan log are deleted before the one that stands for them is there. */
  case object DeletesBeforeTrimmed
      extends Bug("rule 24", _.withFaults(Fault.DriverDies).copy(trimRecords = 2))

  /** The seal that is in force at the oldest version is trimmed with those before it. */
  case object TrimsInForce extends Bug("rule 24", _.copy(trimRecords = 2))

  /** H23: a seal that was taken back stays so, although an older run has committed its batch. */
  case object TakenBackForGood
      extends Bug("H23", _.withFaults(Fault.StepBreaks, Fault.DriverPauses))

  /** H25: a bin that a standby lacks is taken for one that is empty. */
  case object StandbyMissingIsEmpty extends Bug("H25")

  /** H26: bins that left the worker stay in its standby. */
  case object LeftIsKept extends Bug("H26")

  /** H27: a slice is of another version than the standby. */
  case object SliceOfOtherVersion extends Bug("H27", _.withStandbys)

  /** A bin that a replica is still to get is taken for one that is empty. */
  case object LackedIsEmpty extends Bug("rule 19", _.withSlices)

  /** A slice is added to a replica of another version. */
  case object SliceOfNewer extends Bug("rule 19", _.withSlices)

  /** H28: a standby is taken as it stands, whatever it lacks. */
  case object StandbyNotCaughtUp extends Bug("H28")

  /** H29: a relocation is taken before its target has all of the worker's state. */
  case object RelocatedEarly extends Bug("H29")

  /** H30: an executor that is to be emptied drops the state that its worker goes on with. */
  case object DroppedEarly extends Bug("H30")

  /** An executor may go although a worker is placed there. */
  case object GoesThoughPlaced extends Bug("rule 30", _.withDrains)

  /** An executor may go although an idle query has no other copy of its workers' state. */
  case object GoesWithOnlyCopy extends Bug("rule 30", _.withDrains)

  /** An executor may go although it reports the state of workers. */
  case object GoesWithState extends Bug("rule 30", _.withDrains)

  /** An executor may go although it has replicas for steps to come. */
  case object GoesWithReplicas extends Bug("rule 30", _.withDrains)

  /** An executor may go although it has published blocks for steps to come. */
  case object GoesWithBlocks extends Bug("rule 30", _.withDrains)

  /** An executor may go although it has a standby that an idle query lacks elsewhere. */
  case object GoesWithStandby extends Bug("rule 30", _.withDrains.withStandbys.withRoom)

  /** An executor gets no more tasks, and ends, although workers are placed there, or are not all
    * elsewhere.
    */
  case object GoesAsStrayed extends Bug("rule 32", _.withDrains)

  /** An executor that has no room for a standby does not say so, and what it copies again and again
    * counts as progress: a worker waits for it for ever.
    */
  case object NoRoomUnsaid extends Bug("rule 26", _.withDrains.withFullExecutors)

  /** H34: what a step on demand has brought is forgotten, and comes again with the rest. */
  case object BroughtIsForgotten extends Bug("H34")

  /** A sub-bin that came and was removed since counts as one that is elsewhere. */
  case object RemovedIsElsewhere extends Bug("I11", _.onDemand)

  /** H32: a bin that has all in the memory of one attempt counts as complete before the batch says
    * so.
    */
  case object WholeByMemory
      extends Bug(
        "H32",
        _.onDemand
          .withFaults(Fault.TaskGivenUp, Fault.KillUnheard, Fault.ElsewhereSent, Fault.TaskFails)
          .copy(isV2 = false)
      )

  /** H37: a write is laid over what is elsewhere. */
  case object WriteOverElsewhere extends Bug("H37")

  /** H38: a scan for rows that are due looks at those that are here. */
  case object ScanOfHere extends Bug("H38", _.withScans)

  /** H40: a source tells what is due without the rows that its last batches wrote. */
  case object DueTooLate extends Bug("H40", _.withScans)

  /** H41: a source answers what it found as it looked ahead, without what was written since. */
  case object AnsweredAsBefore extends Bug("H41", _.onDemand)

  /** H42: an incomplete bin is committed as if what is here were all of it. */
  case object PartIsWhole extends Bug("H42")

  /** H43: an attempt that fails takes back what it has brought, which is still noted as here. */
  case object BroughtIsUndone extends Bug("H43", _.onDemand.withFaults(Fault.TaskFails))

  /** H47: a standby takes a file as it is sent, before its batch is settled, and goes by its
    * version.
    */
  case object StandbyUnsettled extends Bug("H47", _.withStandbys.copy(isV2 = true))

  /** H48: the files that a standby was made from are not noted, so nothing leads on from it. */
  case object PromotedWithoutLineage extends Bug("H48", _.withStandbys)

  /** H44: what a step took from a worker is dropped while some of it is still elsewhere. */
  case object ExportDropsEarly extends Bug("H44")

  /** H45: an executor answers with what its worker has, whatever name that is of. */
  case object ExportOfHead extends Bug("H45", _.onDemand)

  /** H33: the files of what is elsewhere are read by the chain that the bin has by now. */
  case object BaseAtHead extends Bug("H33", _.onDemand)

  /** H46: a bin moves on without what of it is still elsewhere. */
  case object MoveOfIncomplete extends Bug("H46")

  val All: Vector[Bug] = Vector(
    RelabelByVersion,
    TailOfOtherAttempt,
    LastHeadForAccepted,
    CompactionAboveSettled,
    StaleTables,
    SealAnyway,
    LogReadLate,
    GroupSplit,
    VoidSealsKept,
    WritersAlike,
    UnsettledImage,
    OwnerDeletes,
    PlanLogTrusted,
    MissingIsEmpty,
    ZombieShares,
    CloseDropsOutgoing,
    OffsetLogSeenEarly,
    PublishesToItself,
    OldMessageObeyed,
    TrimUnseen,
    DeletesBeforeTrimmed,
    TrimsInForce,
    TakenBackForGood,
    StandbyMissingIsEmpty,
    LeftIsKept,
    SliceOfOtherVersion,
    LackedIsEmpty,
    SliceOfNewer,
    StandbyNotCaughtUp,
    RelocatedEarly,
    DroppedEarly,
    GoesThoughPlaced,
    GoesWithOnlyCopy,
    GoesWithState,
    GoesWithReplicas,
    GoesWithBlocks,
    GoesWithStandby,
    GoesAsStrayed,
    NoRoomUnsaid,
    BroughtIsForgotten,
    RemovedIsElsewhere,
    WholeByMemory,
    WriteOverElsewhere,
    ScanOfHere,
    DueTooLate,
    AnsweredAsBefore,
    PartIsWhole,
    BroughtIsUndone,
    StandbyUnsettled,
    PromotedWithoutLineage,
    ExportDropsEarly,
    ExportOfHead,
    BaseAtHead,
    MoveOfIncomplete
  )
}
