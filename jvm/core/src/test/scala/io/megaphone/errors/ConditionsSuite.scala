// SPDX-License-Identifier: Apache-2.0
package io.megaphone.errors

import java.lang.reflect.Modifier
import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.log.memory.{DamagedRecordsException, SpillException}

class ConditionsSuite extends AnyFunSuite {
  private val lists =
    Seq(Conditions.ofSessions, Conditions.ofCalls, Conditions.ofQueries, Conditions.ofPython)

  test("a condition stands in one list, in the order of the names") {
    val names = Conditions.all.map(_.name)
    assert(names == names.distinct)
    lists.foreach(list => assert(list.map(_.name) == list.map(_.name).sorted))
    assert(names == names.sorted && names.size == lists.map(_.size).sum)
  }

  test("an SQLSTATE has five characters, a name is in capitals, a doc is one sentence") {
    Conditions.all.foreach { c =>
      assert(c.sqlState.matches("[0-9A-Z]{5}"), c)
      assert(c.name.matches("[A-Z]+(_[A-Z]+)*"), c)
      assert(c.doc.matches("[A-Z][^.]*\\."), c)
    }
  }

  test("every exception of the core has a condition") {
    assert(exceptions.size > 20)
    val without = exceptions.filterNot(classOf[MegaphoneError].isAssignableFrom)
    assert(without.isEmpty)
  }

  test("the conditions of the exceptions are those of the lists, but for Python's own") {
    val listed = lists.init.flatten.map(_.name)
    assert(namesInSources -- listed == Set.empty, "are in no list")
    assert(listed.toSet -- namesInSources == Set.empty, "are used by no exception")
    assert(namesInSources.intersect(Conditions.ofPython.map(_.name).toSet).isEmpty)
  }

  test("an exception answers with its condition") {
    val thrown = Seq[MegaphoneError](
      new BinTooLargeException(1),
      new DamagedFileException("f", None, "1", "2"),
      new DamagedRecordsException("expected 1, found 2"),
      new NewerFormatException("f", 1, 2),
      new MissingFileException("f"),
      new MissingBinException("s", 0, 1),
      new DetachedLeaseException(1),
      new LeaseTimeoutException("s", 0, 1, 2),
      new UnroutableGroupException("Text."),
      new SpillException("Text.", null),
      new StepNotSealedException("Text."),
      new InvalidConfException("k", "v", "reason."),
      new OtherSparkException("4.2", "4.3.0"),
      new InvalidPlanException.UnknownBin(9, 8),
      PlanLogMismatchException.left("f", 0, 1),
      PlanRefusedException.unknownPlan("p"),
      UnsupportedQueryException.noPlugin
    )
    val names = Seq(
      "BIN_TOO_LARGE",
      "DAMAGED_FILE",
      "DAMAGED_RECORDS",
      "NEWER_FORMAT",
      "MISSING_FILE",
      "MISSING_BIN",
      "LEASE_LOST",
      "LEASE_TIMEOUT",
      "UNROUTABLE_GROUP",
      "SPILL_NOT_WRITTEN",
      "PLAN_LOG_NOT_WRITTEN",
      "INVALID_CONFIGURATION",
      "JAR_FOR_OTHER_SPARK",
      "UNKNOWN_BIN",
      "PLAN_LOG_MISMATCH",
      "UNKNOWN_PLAN",
      "PLUGIN_MISSING"
    )
    assert(thrown.map(_.condition) == names)
  }

  /** The classes of the core that can be thrown. */
  private def exceptions: Vector[Class[_]] = {
    val classes =
      Path.of(classOf[MegaphoneError].getProtectionDomain.getCodeSource.getLocation.toURI)
    filesIn(classes)
      .map(file => classes.relativize(file).iterator.asScala.mkString("."))
      .filter(name => name.endsWith("Exception.class") || name.contains("Exception$"))
      .map(name => Class.forName(name.stripSuffix(".class")))
      .filter(c => classOf[Throwable].isAssignableFrom(c) && !Modifier.isAbstract(c.getModifiers))
  }

  /** What stands in capitals between quotes in the sources that have exceptions. */
  private lazy val namesInSources: Set[String] = {
    val name = "\"([A-Z]+(?:_[A-Z]+)+)\"".r
    filesIn(Path.of("src/main/scala"))
      .filterNot(_.endsWith("Conditions.scala"))
      .map(Files.readString(_))
      .filter(_.contains("with MegaphoneError"))
      .flatMap(name.findAllMatchIn(_).map(_.group(1)))
      .toSet
  }

  private def filesIn(folder: Path): Vector[Path] = {
    val files = Files.walk(folder)
    try files.iterator.asScala.filter(Files.isRegularFile(_)).toVector
    finally files.close()
  }
}
