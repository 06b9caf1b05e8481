// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider

import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.megaphone.{SnapshotReports, SparkPrivate}
import org.apache.spark.sql.types.StructType

import io.megaphone.checkpoint.planlog.KnownPlanLog
import io.megaphone.errors.MissingFileException
import io.megaphone.errors.UnsupportedQueryException
import io.megaphone.format.{StoreId, WorkerId}
import io.megaphone.log.KeyReader
import io.megaphone.log.record.Record
import io.megaphone.plan.Operator
import io.megaphone.runtime.{Assignment, Tables}
import io.megaphone.spark.checkpoint.HadoopPlanLog
import io.megaphone.spark.conf.ConfEntry
import io.megaphone.spark.executor.{ExecutorHost, TaskAssignments}
import io.megaphone.spark.provider.families.{
  ColumnFamilies, ColumnFamilyRegistry, ColumnFamilySpec, EncoderPool, StoredKeyReader
}
import io.megaphone.spark.provider.rows.RowChecksums
import io.megaphone.state.Holding

/** What one provider instance knows of its store, and how it opens it.
  *
  *   1. The current task holds the assignment of a batch of this run: the worker's state in the
  *      executor's registry.
  *   1. The checkpoint has a plan log: a reader, from files.
  *   1. Neither: in a task of a streaming batch, the plugin is missing, and the batch is refused;
  *      anything else has nothing to read.
  */
private[megaphone] final class ProviderSession(
    val id: StateStoreId,
    keySpec: KeyStateEncoderSpec,
    valueSchema: StructType,
    useFamilies: Boolean,
    isMultiValued: Boolean,
    schemas: Option[StateSchemaProvider],
    storeConf: StateStoreConf,
    hadoopConf: Configuration
) {
  private val keySchema = keySpec.keySchema
  private val families = new ColumnFamilyRegistry(
    ColumnFamilySpec(keySpec, valueSchema, isMultiValued, isInternal = false),
    useFamilies
  )
  private val encoders = new EncoderPool
  private val run = Option(hadoopConf.get(StreamExecution.RUN_ID_KEY)).getOrElse("")
  private val operatorFolder = new Path(id.checkpointRootLocation, id.operatorId.toString)
  private val checksums = Option.when(storeConf.rowChecksumEnabled)(
    new RowChecksums(id.toString, storeConf.rowChecksumReadVerificationRatio)
  )
  @volatile private var isRowChecked = false
  @volatile private var loaded: Option[ProviderSession.Loaded] = None
  @volatile private var reported = Option.empty[Long]

  def read(version: Long, baseId: Option[String]): ReadStateStore = loading {
    live(version, baseId) match {
      case Some(state) => new GuardedReadStore(id, version, rowsOf(state), state.guard)
      case None => new BinnedReadStore(id, version, readerRows(version, baseId))
    }
  }

  /** Outside a batch, Spark's reader of a join's state asks for writing handles, and only reads. */
  def write(version: Long, baseId: Option[String], withImages: Boolean): StateStore = loading {
    live(version, baseId, writes = true) match {
      case Some(state) =>
        state.withImages = withImages
        new GuardedStore(id, version, rowsOf(state), state, state.guard)
      case None =>
        new BinnedStore(id, version, readerRows(version, baseId), new ReadOnlySession(id))
    }
  }

  /** State that a reader asks for from a snapshot on: bins have images of their own, so it is
    * loaded as any other; but the snapshot's version must be there.
    */
  def replayed(
      snapshot: Long,
      snapshotId: Option[String],
      version: Long,
      versionId: Option[String]
  ): StateStore = loading {
    reader().check(snapshot, snapshotId.isDefined)
    new BinnedStore(id, version, readerRows(version, versionId), new ReadOnlySession(id))
  }

  /** What batches changed in a family of this partition: kind, key, value and batch. Of several
    * values to a key, the first is told as set, the others as added.
    */
  def changes(
      from: Long,
      until: Long,
      untilId: Option[String],
      family: Option[String]
  ): Iterator[(RecordType.Value, UnsafeRow, UnsafeRow, Long)] = {
    val source = reader()
    val f = familiesOf(source.operator, source.binsCount)(
      "changeFeed",
      family.getOrElse(StateStore.DEFAULT_COL_FAMILY_NAME)
    )
    for {
      version <- (from to until).iterator
      c <- source.changes(version, untilId.isDefined).filter(_.family == f.number)
      key = f.keys.decode(c.bytes, c.keyOffset, c.keyBytes).copy()
      (value, kind) <- c.kind match {
        case Record.Remove => Iterator((null, RecordType.DELETE_RECORD))
        case how =>
          val first = if (how == Record.Append) RecordType.MERGE_RECORD else RecordType.PUT_RECORD
          f.valuesOf(c.bytes, c.valueOffset, c.valueBytes)
            .zip(Iterator(first) ++ Iterator.continually(RecordType.MERGE_RECORD))
      }
    } yield (kind, key, value, version - 1)
  }

  /** State from files, which is kept: Spark's reader takes a handle to create the column families
    * by, and another to read by.
    */
  private def readerRows(version: Long, baseId: Option[String]): BinnedRows = {
    val state = loaded.filter(l => l.version == version && l.baseId == baseId).getOrElse {
      val source = reader()
      ProviderSession.Loaded(
        version,
        baseId,
        source.load(version, baseId.isDefined),
        source.operator
      )
    }
    loaded = Some(state)
    checked(
      new BinnedRows(
        StoreId(id.operatorId, id.storeName).in(run),
        state.holding,
        familiesOf(state.operator, state.holding.binsCount)
      )
    )
  }

  private def reader(): ReaderHost = {
    /* A batch of a query whose plan nobody has rewritten would read, and by other partitions than
     * the state has. */
    if (ExecutorHost.active.isEmpty && StoreContext.isInBatch)
      throw UnsupportedQueryException.noPlugin
    val root = new Path(id.checkpointRootLocation).getParent.toString
    val history = ProviderSession.PlanLogs.read(new HadoopPlanLog(root, hadoopConf))
    if (history.isEmpty) throw UnsupportedQueryException.missingPlanLog(root)
    new ReaderHost(id, history, hadoopConf, checkLoaded)
  }

  private def live(
      version: Long,
      baseId: Option[String],
      writes: Boolean = false
  ): Option[LiveStore] =
    for {
      (assignment, tables) <- TaskAssignments.get(run, id.operatorId)
      operator <- assignment.operators.find(_.id == id.operatorId)
    } yield open(assignment, tables, operator, version, baseId, writes)

  private def open(
      assignment: Assignment,
      tables: Tables,
      operator: Operator,
      version: Long,
      base: Option[String],
      writes: Boolean
  ): LiveStore = {
    val host = ExecutorHost.active.getOrElse(throw UnsupportedQueryException.noPlugin)
    val key = StoreId(id.operatorId, id.storeName).in(run)
    val context = new StoreContext {
      override def hasCheckpointIds: Boolean = storeConf.enableStateStoreCheckpointIds
      override def baseId: Option[String] = base
      override def takeFamilies(binsCount: Int): ColumnFamilies =
        encoders.take(operator, familiesOf(operator, binsCount))
      override def keyReader(binsCount: Int): KeyReader =
        new StoredKeyReader(familiesOf(operator, binsCount))
      override def giveBack(used: ColumnFamilies): Unit = encoders.giveBack(used)
      override def reportCommit(newVersion: Long): Unit = {
        if (storeConf.commitValidationEnabled)
          StateStore.reportCommitToCoordinator(newVersion, id, hadoopConf)
        reportSnapshot(newVersion)
      }
      override def checkLoaded(records: Array[Byte]): Unit =
        ProviderSession.this.checkLoaded(records)
      override def conf[A](entry: ConfEntry[A]): A = entry.read(k => Option(hadoopConf.get(k)))
    }
    LiveStore.open(
      host,
      WorkerId(key, id.partitionId),
      version,
      assignment,
      tables,
      host.filesOf(key, operatorFolder, hadoopConf),
      context,
      writes
    )
  }

  /** Each commit is as good as a snapshot, because the chains of bins are short; every tenth is
    * told of, as Spark's own providers make one.
    */
  private def reportSnapshot(version: Long): Unit =
    if (
      storeConf.reportSnapshotUploadLag && reported.forall(
        version - _ >= storeConf.minDeltasForSnapshot
      )
    ) {
      SnapshotReports.report(StateStoreProviderId(id, UUID.fromString(run)), version)
      reported = Some(version)
    }

  private def checkLoaded(records: Array[Byte]): Unit = checksums.foreach(_.verifyAll(records))

  /** Schemas that rows are to be read by when they have changed. */
  private def evolving = if (
    useFamilies && storeConf.stateStoreEncodingFormat == StateStoreEncoding.Avro.toString
  ) schemas
  else None

  private def rowsOf(state: LiveStore): BinnedRows = {
    val rows = new BinnedRows(
      state.key,
      state.holding,
      state.families,
      state.fetcher,
      state.dueOf,
      Some(state.table)
    )
    if (state.isRecovered) state.guard.runOf(() => checked(rows)) else rows
  }

  private def familiesOf(operator: Operator, binsCount: Int) =
    new ColumnFamilies(families, operator, id.storeName, binsCount, evolving, checksums)

  /** Looks at one row of state that was read from files, once a provider, as Spark's own do: of
    * another schema, it would be read as what it is not.
    */
  private def checked(rows: BinnedRows): BinnedRows = {
    if (!isRowChecked && !useFamilies)
      rows.first.foreach { row =>
        StateStoreProvider.validateStateRowFormat(
          row.key,
          keySchema,
          row.value,
          valueSchema,
          id,
          storeConf
        )
        isRowChecked = true
      }
    rows
  }

  /** A version that is not there is the error that Spark's own providers give. */
  private def loading[A](load: => A): A =
    try load
    catch { case e: MissingFileException => throw SparkPrivate.stateFileIsMissing(e.file, e) }
}

private object ProviderSession {

  /** Of the readers in this process. */
  private val PlanLogs = new KnownPlanLog

  /** What a reader has loaded last. */
  final case class Loaded(
      version: Long,
      baseId: Option[String],
      holding: Holding,
      operator: Operator
  )
}
