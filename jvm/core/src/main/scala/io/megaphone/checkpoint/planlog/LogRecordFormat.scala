// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint.planlog

import scala.collection.immutable.{TreeMap, VectorMap}

import io.megaphone.errors.{DamagedFileException, InvalidPlanException, NewerFormatException}
import io.megaphone.format.{Checksum, Decoder, Encoder}
import io.megaphone.plan.{
  Group, Move, Operator, Plan, RoutingTable, SealedStep, Step, StepId, TransferMode
}

/** A plan log record as a file: magic "MPLG" | format version (1 B) | kind (1 B) | body | CRC-32C
  * of all before (4 B).
  */
object LogRecordFormat {
  val FormatVersion = 1
  private val Magic = 0x474c504d // "MPLG", little-endian

  def encode(record: LogRecord): Array[Byte] = {
    val out = new Encoder(512).int(Magic).byte(FormatVersion)
    record match {
      case r: LogRecord.Started => started(out.byte(1), r)
      case r: LogRecord.Submitted => plan(out.byte(2), r.plan)
      case r: LogRecord.Cancelled => out.byte(3).string(r.planId).string(r.reason.getOrElse(""))
      case r: LogRecord.Sealed if r.completed.isEmpty => seal(out.byte(4), r, completions = false)
      case r: LogRecord.Sealed => seal(out.byte(6), r, completions = true)
      case r: LogRecord.Trimmed if !completes(r.kept) =>
        history(out.byte(5).string(r.run), r.kept, completions = false)
      case r: LogRecord.Trimmed =>
        history(out.byte(7).string(r.run), r.kept, completions = true)
    }
    val body = out.toBytes
    new Encoder(body.length + 4).raw(body).int(Checksum.of(body)).toBytes
  }

  /** Throws DamagedFileException, which names `file`. */
  def decode(file: String, bytes: Array[Byte]): LogRecord = {
    if (bytes.length < 10)
      throw new DamagedFileException(file, None, "at least 10 bytes", bytes.length.toString)
    val body = bytes.length - 4
    val checksum = new Decoder(file, bytes, body, bytes.length).int()
    if (Checksum.of(bytes, 0, body) != checksum)
      throw new DamagedFileException(
        file,
        None,
        f"checksum 0x$checksum%08x",
        f"0x${Checksum.of(bytes, 0, body)}%08x"
      )
    val in = new Decoder(file, bytes, 0, body)
    val magic = in.int()
    if (magic != Magic) in.fail("the magic number MPLG", f"0x$magic%08x")
    val version = in.byte()
    if (version > FormatVersion) throw new NewerFormatException(file, FormatVersion, version)
    if (version != FormatVersion) in.fail(s"format version $FormatVersion", version.toString)
    try
      in.byte() match {
        case 1 => started(in)
        case 2 => LogRecord.Submitted(plan(in))
        case 3 => LogRecord.Cancelled(in.string(), reason(in))
        case 4 => seal(in, completions = false)
        case 5 => LogRecord.Trimmed(in.string(), history(in, completions = false))
        case 6 => seal(in, completions = true)
        case 7 => LogRecord.Trimmed(in.string(), history(in, completions = true))
        case other => in.fail("a record of kind 1 to 7", other.toString)
      }
    catch { case e: InvalidPlanException => in.fail("valid tables and modes", e.getMessage) }
  }

  private def started(out: Encoder, r: LogRecord.Started): Unit = {
    out.string(r.run).varint(r.firstBatch).varint(r.checkpointFormat).varint(r.bins)
    out.seq(r.groups) { g =>
      out.varint(g.firstWorkers).boolean(g.isMovable).seq(g.operators) { o =>
        out
          .varint(o.id)
          .string(o.name)
          .seq(o.stores)(s => out.string(s))
          .seq(o.families)(f => out.string(f))
      }
    }
    tables(out, r.tables)
    r.verdict match {
      case Verdict.None => out.byte(0)
      case Verdict.TakesBack(reason) => out.byte(1).string(reason)
      case Verdict.Restores => out.byte(2)
    }
    ()
  }

  private def started(in: Decoder): LogRecord.Started = LogRecord.Started(
    in.string(),
    in.varint(),
    in.count(),
    in.count(),
    in.seq(group(in)),
    tables(in),
    in.byte() match {
      case 0 => Verdict.None
      case 1 => Verdict.TakesBack(in.string())
      case 2 => Verdict.Restores
      case other => in.fail("a verdict from 0 to 2", other.toString)
    }
  )

  private def group(in: Decoder): Group = {
    val firstWorkers = in.count()
    val isMovable = in.boolean()
    val operators =
      in.seq(Operator(in.varint(), in.string(), in.seq(in.string()), in.seq(in.string())))
    if (operators.isEmpty) in.fail("a group of operators", "none")
    Group(operators, firstWorkers, isMovable)
  }

  private def plan(out: Encoder, p: Plan): Unit = {
    out.string(p.id).string(p.strategy).string(p.mode.toString)
    out.seq(p.steps.toSeq.sortBy(_._1)) { case (group, steps) =>
      out.varint(group).seq(steps)(s => moves(out.varint(s.workers), s.moves))
    }
    ()
  }

  private def plan(in: Decoder): Plan = {
    val id = in.string()
    val strategy = in.string()
    val mode = TransferMode.parse(in.string())
    Plan(id, in.seq(in.varint() -> in.seq(step(in))).toMap, strategy, mode)
  }

  private def seal(out: Encoder, r: LogRecord.Sealed, completions: Boolean): Unit = {
    out.string(r.run).varint(r.batch)
    out.seq(r.steps)(sealedStep(out, _))
    tables(out, r.tables)
    if (completions) out.seq(r.completed)(stepId(out, _))
    ()
  }

  private def seal(in: Decoder, completions: Boolean): LogRecord.Sealed = LogRecord.Sealed(
    in.string(),
    in.varint(),
    in.seq(sealedStep(in)),
    tables(in),
    if (completions) in.seq(stepId(in)) else Vector.empty
  )

  private def sealedStep(out: Encoder, s: SealedStep): Unit = {
    stepId(out, s.step)
    moves(out, s.moves)
    out.string(s.noRoom.getOrElse(""))
    ()
  }

  private def sealedStep(in: Decoder): SealedStep =
    SealedStep(stepId(in), moves(in), reason(in))

  private def stepId(out: Encoder, id: StepId): Unit = {
    out.string(id.planId).varint(id.group).varint(id.index); ()
  }
  private def stepId(in: Decoder): StepId = StepId(in.string(), in.varint(), in.count())

  /** Whether a history says of a step on demand that it is complete: the kinds of record that
    * cannot say so are those of releases that knew no such steps.
    */
  private def completes(h: History): Boolean =
    h.plans.values.exists(_.completed.nonEmpty) ||
      (h.seals.byBatch.values ++ h.takenBack).exists(_.completed.nonEmpty)

  /** Without its next number, which is that of the record that it is in. */
  private def history(out: Encoder, h: History, completions: Boolean): Unit = {
    out.seq(h.starts.first.toSeq)(started(out, _))
    out.seq(h.starts.last.toSeq)(started(out, _))
    out.varint(h.starts.furthest + 1).varint(h.starts.retries)
    out.varint(h.seals.since + 1).seq(h.seals.byBatch.values.toSeq)(seal(out, _, completions))
    out.seq(h.plans.values.toSeq) { p =>
      plan(out, p.plan)
      out.seq(p.taken) { case (batch, step) => sealedStep(out.varint(batch), step) }
      if (completions) completed(out, p)
      out.seq(p.end.toSeq)(e => out.string(e.reason.getOrElse("")))
    }
    out.seq(h.takenBack.toSeq)(seal(out, _, completions))
    ()
  }

  private def history(in: Decoder, completions: Boolean): History = History(
    nextNumber = 0,
    untrimmed = 0,
    Starts(
      in.seq(started(in)).headOption,
      in.seq(started(in)).headOption,
      in.varint() - 1,
      in.count()
    ),
    Seals(in.varint() - 1, TreeMap.from(in.seq(seal(in, completions)).map(s => s.batch -> s))),
    VectorMap.from(in.seq(progress(in, completions)).map(p => p.plan.id -> p)),
    in.seq(seal(in, completions)).headOption
  )

  private def progress(in: Decoder, completions: Boolean): PlanProgress = {
    val of = plan(in)
    val taken = in.seq(in.varint() -> sealedStep(in))
    val completed = if (completions) in.seq((in.varint(), in.count()) -> in.varint()) else Nil
    PlanProgress(of, taken, completed.toMap, in.seq(PlanEnd(reason(in))).headOption)
  }
  private def completed(out: Encoder, p: PlanProgress): Unit = {
    out.seq(p.completed.toSeq.sortBy(_._1)) { case ((group, index), batch) =>
      out.varint(group).varint(index).varint(batch); ()
    }
    ()
  }

  private def reason(in: Decoder): Option[String] = Some(in.string()).filter(_.nonEmpty)
  private def step(in: Decoder): Step = { val workers = in.count(); Step(moves(in), workers) }
  private def moves(out: Encoder, moves: Vector[Move]): Unit = {
    out.seq(moves)(m => out.varint(m.bin).varint(m.target)); ()
  }
  private def moves(in: Decoder): Vector[Move] = in.seq(Move(in.count(), in.count()))
  private def tables(out: Encoder, tables: Map[Long, RoutingTable]): Unit = {
    out.seq(tables.toSeq.sortBy(_._1)) { case (g, t) => out.varint(g).blob(t.toBytes) }; ()
  }
  private def tables(in: Decoder): Map[Long, RoutingTable] =
    in.seq(in.varint() -> RoutingTable.fromBytes(in.blob())).toMap
}
