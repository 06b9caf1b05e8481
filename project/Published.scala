// SPDX-License-Identifier: Apache-2.0
import sbt._
import sbt.Keys._
import sbtassembly.AssemblyKeys.assembly

/** What is published for one Spark minor: the assembled jar, as a Maven artifact.
  *
  * It is a project of its own without any dependency, so its POM has none: the jar brings the core,
  * and the Spark that runs it brings everything else. Spark would otherwise fetch a second Scala
  * library and a second Spark with `--packages`.
  */
object Published {

  /** A folder in the layout of a Maven repository, below the build's own. */
  def repository(root: File): File = root / "target" / "maven"

  private val home = url("https://github.com/spark-megaphone/spark-megaphone")

  /** The artifact of the plugin `spark`, whose jar has the classes of `core` too. */
  def settings(minor: String, spark: Project, core: Project): Seq[Setting[_]] = Seq(
    name := s"spark-megaphone for Spark $minor",
    moduleName := s"spark-megaphone_$minor",
    description := "Live rescaling of stateful Structured Streaming queries, " +
      s"for Apache Spark $minor.",
    sourcesInBase := false,
    autoScalaLibrary := false,
    // What Maven's central repository asks of a POM.
    homepage := Some(home),
    organizationName := "The spark-megaphone authors",
    organizationHomepage := Some(home),
    startYear := Some(2026),
    scmInfo := Some(ScmInfo(home, s"scm:git:$home.git")),
    developers := List(
      Developer("spark-megaphone", "The spark-megaphone authors", "", home)
    ),
    pomIncludeRepository := (_ => false),
    publishTo := Some(MavenCache("build", repository((ThisBuild / baseDirectory).value))),
    // A version that is not released yet is published again and again.
    publishConfiguration := publishConfiguration.value.withOverwrite(true),
    Compile / packageBin := (spark / assembly).value,
    Compile / packageSrc / mappings := (core / Compile / packageSrc / mappings).value ++
      (spark / Compile / packageSrc / mappings).value,
    Compile / doc / sources :=
      (core / Compile / doc / sources).value ++ (spark / Compile / doc / sources).value,
    Compile / doc / dependencyClasspath := (spark / Compile / dependencyClasspath).value,
    Compile / doc / scalacOptions := Seq(
      "-encoding",
      "UTF-8",
      "-doc-title",
      s"spark-megaphone for Spark $minor",
      "-doc-version",
      version.value,
      "-no-link-warnings"
    )
  )
}
