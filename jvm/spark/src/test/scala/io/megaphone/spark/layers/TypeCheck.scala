// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.layers

import scala.reflect.internal.util.BatchSourceFile
import scala.tools.nsc.{Global, Settings}
import scala.tools.nsc.reporters.StoreReporter

/** Type-checks sources against the class path of this JVM. Generates no code.
  *
  * Threads: one at a time.
  *
  * @param sources
  *   by name; they are compiled together
  */
final class TypeCheck(sources: Map[String, String]) {
  private val settings = new Settings(problem => throw new IllegalArgumentException(problem))
  settings.classpath.value = System.getProperty("java.class.path")
  settings.stopAfter.value = List("typer")
  settings.maxerrs.value = Int.MaxValue
  private val reporter = new StoreReporter(settings)
  private val compiler = new Global(settings, reporter)
  new compiler.Run().compileSources(
    sources.toList.map { case (name, source) => new BatchSourceFile(name, source) }
  )

  /** The compiler's errors in a source. */
  def errors(name: String): Vector[String] =
    reporter.infos.toVector
      .filter(i => i.severity == reporter.ERROR && i.pos.source.file.name == name)
      .map(_.msg)

  /** Whether only some packages may use a class or an object of the class path. */
  def isPrivate(className: String): Boolean =
    symbolsOf(className).exists(_.initialize.hasAccessBoundary)

  /** Whether a class or an object of the class path has a member of this name, or inherits it. */
  def hasMember(className: String, member: String): Boolean =
    symbolsOf(className).exists { symbol =>
      val names = Seq(compiler.TermName(member), compiler.TypeName(member))
      names.exists(symbol.info.member(_) != compiler.NoSymbol)
    }

  private def symbolsOf(className: String): Seq[compiler.Symbol] = {
    val mirror = compiler.rootMirror
    Seq(mirror.getClassIfDefined(className), mirror.getModuleIfDefined(className))
      .filter(_ != compiler.NoSymbol)
  }
}
