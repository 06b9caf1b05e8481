// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.checkpoint

import java.io.{FileNotFoundException, IOException}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, FileSystemException, Path => NioPath}
import java.util.Comparator
import java.util.concurrent.{Callable, CyclicBarrier, Executors, TimeUnit}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{
  FileAlreadyExistsException, FileStatus, FSDataInputStream, Path, PathFilter, StreamCapabilities
}
import org.apache.hadoop.util.NativeCodeLoader
import org.apache.spark.sql.execution.streaming.checkpointing.{
  CheckpointFileManager, FileContextBasedCheckpointFileManager
}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream
import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.planlog.LogRecord
import io.megaphone.errors.DamagedFileException
import io.megaphone.format.{FileName, StateName}
import io.megaphone.spark.executor.ExecutorHost

/** Files on a local disk: the plugin's manager writes them as Spark's own does, but starts no
  * process for it.
  */
final class LocalFilesSuite extends AnyFunSuite {

  private def withFolder[A](body: NioPath => A): A = {
    val folder = Files.createTempDirectory("megaphone-files")
    try body(folder)
    finally {
      val all = Files.walk(folder)
      try all.sorted(Comparator.reverseOrder[NioPath]()).forEach(file => Files.delete(file))
      finally all.close()
    }
  }

  private def sparks(folder: NioPath): CheckpointFileManager =
    new FileContextBasedCheckpointFileManager(new Path(s"file:$folder"), new Configuration)
  private def ours(folder: NioPath): CheckpointFileManager =
    new LocalCheckpointFileManager(new Path(s"file:$folder"), new Configuration)

  private def write(
      manager: CheckpointFileManager,
      path: Path,
      text: String,
      overwrite: Boolean
  ): Unit = {
    val out = manager.createAtomic(path, overwriteIfPossible = overwrite)
    out.write(text.getBytes(UTF_8))
    out.close()
  }

  private def read(manager: CheckpointFileManager, path: Path): String = {
    val in = manager.open(path)
    try new String(in.readAllBytes(), UTF_8)
    finally in.close()
  }

  /** The names of all that lies in a folder. */
  private def names(folder: NioPath): Seq[String] = {
    val all = Files.list(folder)
    try all.iterator.asScala.map(_.getFileName.toString).toVector.sorted
    finally all.close()
  }

  for (
    (whose, made) <- Seq[(String, NioPath => CheckpointFileManager)](
      ("Spark's", sparks),
      ("the plugin's", ours)
    )
  )
    test(
      s"By $whose manager a file is replaced where it may be; where it may not, that is an " +
        "error, and what was there stays."
    ) {
      withFolder { folder =>
        val manager = made(folder)
        val path = new Path(s"file:$folder/1.delta")
        write(manager, path, "one", overwrite = false)
        assert(read(manager, path) == "one")
        write(manager, path, "another", overwrite = true)
        assert(read(manager, path) == "another")
        assertThrows[FileAlreadyExistsException](write(manager, path, "a third", overwrite = false))
        assert(read(manager, path) == "another")
      }
    }

  for (
    overwrite <- Seq(true, false);
    (scheme, written) <- Seq("file:" -> "file:/x", "file://" -> "file:///x", "" -> "/x");
    kind = if (overwrite) "to replace one" else "new"
  )
    test(s"A file at $written appears when it is closed, and not before, be it $kind.") {
      withFolder { folder =>
        val manager = new LocalCheckpointFileManager(new Path(s"$scheme$folder"), new Configuration)
        val path = new Path(s"$scheme$folder/1.delta")
        if (overwrite) write(manager, path, "before", overwrite)
        val out = manager.createAtomic(path, overwriteIfPossible = overwrite)
        out.write("after".getBytes(UTF_8))
        out.flush()
        assert(manager.exists(path) == overwrite)
        if (overwrite) assert(read(manager, path) == "before")
        val others = names(folder).filterNot(_ == "1.delta")
        assert(
          others.size == 1 && others.head.startsWith("."),
          "its temporary name is one that Spark does not list as data"
        )
        out.close()
        out.close()
        assert(read(manager, path) == "after" && names(folder) == Seq("1.delta"))
      }
    }

  test(
    "A file that Spark's manager wrote is replaced with its checksum: what is there then can be " +
      "read by either."
  ) {
    withFolder { folder =>
      val path = new Path(s"file:$folder/1.delta")
      write(sparks(folder), path, "one", overwrite = false)
      assert(names(folder) == Seq(".1.delta.crc", "1.delta"))
      write(ours(folder), path, "another", overwrite = true)
      assert(Seq(sparks(folder), ours(folder)).map(read(_, path)) == Seq("another", "another"))
      write(sparks(folder), path, "a third", overwrite = true)
      assert(Seq(sparks(folder), ours(folder)).map(read(_, path)) == Seq("a third", "a third"))
    }
  }

  test("A file that is given up leaves nothing, and what was there as it was.") {
    for (overwrite <- Seq(true, false); isThere <- Seq(true, false)) withFolder { folder =>
      val manager = ours(folder)
      val path = new Path(s"file:$folder/1.delta")
      if (isThere) write(manager, path, "before", overwrite = false)
      val out = manager.createAtomic(path, overwriteIfPossible = overwrite)
      out.write("after".getBytes(UTF_8))
      out.cancel()
      out.close()
      assert(names(folder) == (if (isThere) Seq("1.delta") else Nil))
      assert(!isThere || read(manager, path) == "before")
    }
  }

  test(
    "A file that must not be replaced is refused with nothing left of the other one; without a " +
      "folder there is no file."
  ) {
    withFolder { folder =>
      val manager = ours(folder)
      val path = new Path(s"file:$folder/1.delta")
      write(manager, path, "one", overwrite = false)
      assertThrows[FileAlreadyExistsException](write(manager, path, "two", overwrite = false))
      assert(names(folder) == Seq("1.delta"))
      assertThrows[FileNotFoundException](
        manager.createAtomic(new Path(s"file:$folder/missing/1.delta"), overwriteIfPossible = true)
      )
      assert(names(folder) == Seq("1.delta"))
    }
  }

  test("A state file that is not finished is told as such by the name that it is to have.") {
    withFolder { folder =>
      val conf = new Configuration
      conf.set(ExecutorHost.FileManagerKey, classOf[LocalCheckpointFileManager].getName)
      val files = new HadoopStateFiles(new Path(s"file:$folder"), "default", conf)
      val file = FileName(0, StateName(1, "id"))
      val out = files.create(file)
      out.write("state".getBytes(UTF_8))
      def temporary = names(folder.resolve("0")).filter(_.endsWith(".tmp"))
      assert(files.swept.listed.isEmpty && temporary.size == 1)
      files.swept.deleteUnfinished(before = 1)
      assert(temporary.size == 1, "it is of version 1")
      out.close()
      assert(files.swept.listed == Vector(file) && temporary.isEmpty)
      val lost = files.create(FileName(0, StateName(1, "other")))
      lost.write(1)
      files.swept.deleteUnfinished(before = 2)
      assert(temporary.isEmpty && files.swept.listed == Vector(file))
    }
  }

  test(
    "Of writers at once of a file that must not be replaced one wins; the others are told, and " +
      "leave nothing."
  ) {
    withFolder { folder =>
      val (writers, rounds) = (4, 50)
      val manager = ours(folder)
      val pool = Executors.newFixedThreadPool(writers)
      try
        for (round <- 0 until rounds) {
          val path = new Path(s"file:$folder/$round")
          val barrier = new CyclicBarrier(writers)
          def attempt(writer: Int): Callable[Boolean] = () => {
            val out = manager.createAtomic(path, overwriteIfPossible = false)
            out.write(s"by $writer".getBytes(UTF_8))
            barrier.await(60, TimeUnit.SECONDS)
            try { out.close(); true }
            catch { case _: FileAlreadyExistsException => false }
          }
          val have = pool.invokeAll((0 until writers).map(attempt).asJava).asScala.map(_.get).toSeq
          assert(have.count(identity) == 1)
          assert(read(manager, path) == s"by ${have.indexOf(true)}")
        }
      finally { pool.shutdownNow(); () }
      assert(names(folder) == (0 until rounds).map(_.toString).sorted)
    }
  }

  test("No process is started to write a file or to make a folder.") {
    withFolder { folder =>
      def writeAll(manager: CheckpointFileManager, name: String): Unit = for (i <- 0 until 20) {
        val in = new Path(s"file:$folder/$name-$i")
        manager.mkdirs(in)
        write(manager, new Path(in, "1.delta"), "state", overwrite = i % 2 == 0)
        assert(manager.exists(new Path(in, "1.delta")))
      }
      val (byHadoop, byFiles) = (sparks(folder), ours(folder))
      // Where Hadoop's native library is missing, Spark's manager shows that processes are seen.
      assert(
        StartedProcesses
          .byThisThread(writeAll(byHadoop, "sparks"))
          .size >= 20 || NativeCodeLoader.isNativeCodeLoaded
      )
      assert(StartedProcesses.byThisThread(writeAll(byFiles, "ours")).isEmpty)
    }
  }

  test("A checkpoint id that would lead out of the worker's folder is refused.") {
    withFolder { folder =>
      val files = new HadoopStateFiles(new Path(s"file:$folder/state/0"), "x", new Configuration)
      for (id <- Seq("../../commits/0", "..", "a/b", "a\\b")) {
        val name = FileName(1, StateName(2, id))
        val ways = Seq[() => Any](
          () => files.open(name),
          () => files.create(name),
          () => files.swept.delete(name)
        )
        for (way <- ways) {
          val message = intercept[DamagedFileException](way()).getMessage
          assert(message.startsWith(s"The file file:$folder/commits is damaged"))
          assert(message.endsWith(s"found $id."))
        }
      }
    }
  }

  test("A folder that cannot be made is made by the next attempt.") {
    withFolder { folder =>
      val conf = new Configuration
      conf.set(ExecutorHost.FileManagerKey, classOf[WatchedFiles].getName)
      val files = new HadoopStateFiles(new Path(s"file:$folder"), "default", conf)
      WatchedFiles.foldersLeft = 1
      val file = FileName(0, StateName(1, "id"))
      assert(intercept[IOException](files.create(file)).getMessage == "no folder today")
      files.create(file).close()
      assert(files.swept.listed == Vector(file))
    }
  }

  test("A folder that someone has removed is made by the next attempt.") {
    withFolder { folder =>
      val conf = new Configuration
      conf.set(ExecutorHost.FileManagerKey, classOf[LocalCheckpointFileManager].getName)
      val files = new HadoopStateFiles(new Path(s"file:$folder"), "default", conf)
      val (file, next) = (FileName(0, StateName(1, "id")), FileName(0, StateName(2, "id")))
      files.create(file).close()
      files.swept.delete(file)
      Files.delete(folder.resolve("0"))
      assertThrows[FileNotFoundException](files.create(next))
      files.create(next).close()
      assert(files.swept.listed == Vector(next))
    }
  }

  test("Without hard links a file gets its name if the name is free.") {
    withFolder { folder =>
      val noLinks: (NioPath, NioPath) => Unit =
        (link, _) => throw new FileSystemException(link.toString, null, "nicht unterstützt")
      val (temporary, target) = (folder.resolve(".1.tmp"), folder.resolve("1"))
      for (text <- Seq("one", "two")) {
        Files.writeString(temporary, text)
        def link(): Unit = LocalCheckpointFileManager.link(target, temporary, noLinks)
        if (text == "one") link()
        else assertThrows[java.nio.file.FileAlreadyExistsException](link())
      }
      assert(Files.readString(target) == "one" && names(folder).forall(Set("1", ".1.tmp")))
    }
  }

  test("That a folder has no hard links is tried out once.") {
    withFolder { folder =>
      var tries = 0
      val noLinks: (NioPath, NioPath) => Unit = (link, _) => {
        tries += 1
        throw new FileSystemException(link.toString)
      }
      val known = new java.util.HashSet[NioPath]
      val counts = for (name <- Seq("1", "2", "3")) yield {
        val temporary = Files.writeString(folder.resolve(s".$name.tmp"), name)
        LocalCheckpointFileManager.link(folder.resolve(name), temporary, noLinks, known)
        tries
      }
      assert(counts == Seq(2, 3, 4) && names(folder) == Seq("1", "2", "3"))
    }
  }

  test("A link that fails for another reason is no sign of a file system without hard links.") {
    withFolder { folder =>
      val (temporary, target) = (folder.resolve(".1.tmp"), folder.resolve("1"))
      val fails: (NioPath, NioPath) => Unit = (link, file) =>
        if (link == target) throw new FileSystemException(link.toString, null, "not permitted")
        else { Files.createLink(link, file); () }
      Files.writeString(temporary, "one")
      assertThrows[FileSystemException](LocalCheckpointFileManager.link(target, temporary, fails))
      assert(names(folder) == Seq(".1.tmp"))
    }
  }

  test("Nor is one where no other file can be made either, as on a full disk.") {
    withFolder { folder =>
      val (before, gone) = (folder.resolve("before"), folder.resolve("gone"))
      val (temporary, target) = (before.resolve(".1.tmp"), before.resolve("1"))
      Files.createDirectory(before)
      Files.writeString(temporary, "one")
      val fails: (NioPath, NioPath) => Unit = (link, _) => {
        Files.move(before, gone)
        throw new FileSystemException(link.toString, null, "not permitted")
      }
      val thrown = intercept[FileSystemException](
        LocalCheckpointFileManager.link(target, temporary, fails)
      )
      assert(thrown.getReason == "not permitted" && names(gone) == Seq(".1.tmp"))
    }
  }

  test("A record of the plan log is forced to the disk.") {
    withFolder { folder =>
      val conf = new Configuration
      conf.set(ExecutorHost.FileManagerKey, classOf[WatchedFiles].getName)
      WatchedFiles.forced = Vector.empty
      val log = new HadoopPlanLog(s"file:$folder", conf)
      assert((0L to 1L).forall(log.create(_, LogRecord.Cancelled("plan"))))
      assert(WatchedFiles.forced == Vector("0", "1"))
    }
  }

  test("What is forced to the disk is there before the file has its name.") {
    withFolder { folder =>
      val out = ours(folder).createAtomic(new Path(s"file:$folder/1"), overwriteIfPossible = false)
      assert(out.hasCapability(StreamCapabilities.HSYNC))
      out.write("one".getBytes(UTF_8))
      out.hsync()
      val temporary = names(folder).map(folder.resolve)
      assert(temporary.size == 1 && Files.readString(temporary.head) == "one")
      out.close()
      assert(names(folder) == Seq("1"))
    }
  }
}

/** The plugin's manager, but some folders cannot be made; it says what is forced to the disk. */
final class WatchedFiles(path: Path, hadoopConf: Configuration) extends CheckpointFileManager {
  private val files = new LocalCheckpointFileManager(path, hadoopConf)

  override def mkdirs(path: Path): Unit = {
    WatchedFiles.foldersLeft -= 1
    if (WatchedFiles.foldersLeft >= 0) throw new IOException("no folder today")
    files.mkdirs(path)
  }
  override def createAtomic(
      path: Path,
      overwriteIfPossible: Boolean
  ): CancellableFSDataOutputStream = {
    val stream = files.createAtomic(path, overwriteIfPossible)
    new CancellableFSDataOutputStream(stream) {
      override def hsync(): Unit = { super.hsync(); WatchedFiles.forced :+= path.getName }
      override def cancel(): Unit = stream.cancel()
    }
  }
  override def open(path: Path): FSDataInputStream = files.open(path)
  override def list(path: Path, filter: PathFilter): Array[FileStatus] = files.list(path, filter)
  override def exists(path: Path): Boolean = files.exists(path)
  override def delete(path: Path): Unit = files.delete(path)
  override def isLocal: Boolean = true
  override def createCheckpointDirectory(): Path = files.createCheckpointDirectory()
}

object WatchedFiles {

  /** How many folders cannot be made. */
  @volatile var foldersLeft = 0

  /** The names of the files that were forced to the disk before they were closed. */
  @volatile var forced: Vector[String] = Vector.empty
}
