// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.layers

/** Checks that each source in [[PrivateMembers.Package]] needs members that are private to Spark,
  * and that its header names exactly these.
  *
  * The sources are moved to a package outside Spark and compiled there. Each must fail, and only
  * because of access: a member cannot be accessed, an imported class is private to Spark, or the
  * source uses what it inherits from such a class.
  *
  * @param sources
  *   by name
  * @param spark
  *   the minor version of Spark on the class path, for example 4.2
  */
final class PrivateMembers(sources: Map[String, String], spark: String) {
  import PrivateMembers._

  private val compiled = new TypeCheck(sources.map { case (name, source) =>
    name -> source.replace(Package, Elsewhere).replace(s"$Elsewhere.$InJava", s"$Package.$InJava")
  })

  /** What is wrong with a source; empty if nothing is. */
  def problems(name: String): Vector[String] = {
    val hidden = importsOf(sources(name)).filter(compiled.isPrivate)
    val causes = compiled.errors(name).map(error => error -> causeOf(error, hidden))
    val needed = causes.flatMap(_._2).filter(_.nonEmpty).distinct.sorted
    if (causes.isEmpty) Vector(s"$name compiles outside $Package")
    else
      causes.collect { case (error, None) => s"$name fails for another reason: $error" } ++
        problemsOfHeader(name, needed)
  }

  /** The private member that an error is about: empty for a consequence of another error, None if
    * the error is not about access.
    */
  private def causeOf(error: String, hidden: Vector[String]): Option[String] = error match {
    case CannotBeAccessed(member, owner) => Some(s"$owner.$member")
    case NotFound(name) if hidden.exists(_.endsWith(s".$name")) => Some(name)
    case NotFound(name) if hidden.exists(compiled.hasMember(_, name)) => Some("")
    case ArgumentsForObject() if hidden.nonEmpty => Some("") // of a class whose parent is hidden
    case _ => None
  }

  private def problemsOfHeader(name: String, needed: Vector[String]): Vector[String] =
    Header.of(sources(name)).fold(Vector(s"$name does not say what is private to Spark")) { h =>
      val unknownVersion =
        Option.when(!h.versions.contains(spark))(s"$name does not name Spark $spark")
      val otherMembers = Option.when(h.compiled != needed)(
        s"$name names ${h.compiled.mkString(", ")}, but needs ${needed.mkString(", ")}"
      )
      val notLookedUp = h.reflected
        .filterNot(member => sources(name).contains(s"\"${member.split('.').last}\""))
        .map(member => s"$name does not look up $member by its name")
      unknownVersion.toVector ++ otherMembers ++ notLookedUp
    }
}

object PrivateMembers {

  /** The package of Spark that has the plugin's sources. */
  val Package = "org.apache.spark.sql.megaphone"
  private val Elsewhere = "elsewhere.megaphone"

  /** The class in the package that is written in Java, and stays where it is. */
  private val InJava = "Servlets"

  private val CannotBeAccessed =
    """(?s)\w+ (\w+) in (?:class|object|trait|package) (\w+) cannot be accessed .*""".r
  private val NotFound = """(?s)not found: (?:type|value|object) (\w+)\b.*""".r

  private val ArgumentsForObject = "no arguments allowed for nullary constructor Object.*".r

  private val Import = """import ([\w.]+)\.(?:(\w+)|\{([^}]*)\})""".r

  /** The full names that a source imports. */
  private def importsOf(source: String): Vector[String] =
    Import.findAllMatchIn(source).toVector.flatMap { found =>
      val names = Option(found.group(2)).getOrElse(found.group(3)).split(',')
      names.map(name => s"${found.group(1)}.${name.trim.split(' ').head}")
    }

  /** What a source says that it needs.
    *
    * @param compiled
    *   the members that the compiler sees, sorted
    * @param reflected
    *   the members that are looked up when the code runs
    */
  private final case class Header(
      versions: Vector[String],
      compiled: Vector[String],
      reflected: Vector[String]
  )

  private object Header {
    private val Sentence = """Private to Spark \(([\d., ]+)\): (.*?)\.\s""".r
    private val Quoted = "`([^`]+)`".r

    def of(source: String): Option[Header] = {
      val unwrapped = source.replaceAll("""\s*\n\s*\*\s*""", " ")
      Sentence.findFirstMatchIn(unwrapped).map { found =>
        val (compiled, reflected) = found.group(2).split("by reflection", 2) match {
          case Array(before, after) => (before, after)
          case all => (all.head, "")
        }
        Header(
          found.group(1).split(',').map(_.trim).toVector,
          names(compiled).sorted,
          names(reflected)
        )
      }
    }

    private def names(text: String): Vector[String] =
      Quoted.findAllMatchIn(text).map(_.group(1)).toVector
  }
}
