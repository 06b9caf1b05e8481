// SPDX-License-Identifier: Apache-2.0
ThisBuild / organization := "io.megaphone"
ThisBuild / version := Versions.ofProject((LocalRootProject / baseDirectory).value)
ThisBuild / scalaVersion := Versions.Scala
ThisBuild / versionScheme := Some("semver-spec")
ThisBuild / licenses := Seq(License.Apache2)

// One forked test JVM at a time, over all projects: Spark's suites are heavy, and many of them use
// fixed folders.
Global / concurrentRestrictions ++= Seq(
  Tags.limit(Tags.ForkedTestGroup, 1),
  Tags.exclusiveGroup(Tags.ForkedTestGroup)
)
Global / onChangedBuildSource := ReloadOnSourceChanges

// The Spark projects share their sources, so one formats after the other.
val formatted = Seq("core", "spark42", "spark43", "benchmarks")
addCommandAlias("fmt", (formatted.map(_ + "/scalafmtAll") :+ "scalafmtSbt").mkString("; "))
addCommandAlias(
  "lint",
  (formatted.map(_ + "/scalafmtCheckAll") :+ "scalafmtSbtCheck").mkString("; ")
)

lazy val common = Seq(
  scalacOptions ++= Seq(
    "-deprecation",
    "-feature",
    "-unchecked",
    "-Xlint",
    "-Wunused",
    "-Werror",
    "-release",
    "17",
    "-encoding",
    "UTF-8"
  ),
  Compile / compile / javacOptions ++= Seq(
    "--release",
    "17",
    "-Xlint:all,-processing,-serial",
    "-Werror",
    "-encoding",
    "UTF-8"
  ),
  Compile / console / scalacOptions --= Seq("-Xlint", "-Wunused", "-Werror"),
  libraryDependencies ++= Seq(
    "org.scalatest" %% "scalatest" % Versions.ScalaTest % Test,
    "org.scalatestplus" %% "scalacheck-1-18" % Versions.ScalaTestPlus % Test
  ),
  Test / fork := true,
  Test / testForkedParallel := false,
  Test / javaOptions ++= Jvm.TestMemory ++ Seq(
    "-ea",
    "-Duser.timezone=UTC",
    "-Duser.language=en",
    "-Duser.country=US"
  ),
  // Durations, full stack traces of what failed, and a reminder at the end.
  Test / testOptions += Tests.Argument(TestFrameworks.ScalaTest, "-oDFG"),
  publish / skip := true
)

/** What kills, pauses and damages in the Python tests, and the queries of theirs that Python cannot
  * make, as a jar of its own: nothing of it is in the plugin's.
  */
lazy val faultsJar = taskKey[File]("builds the jar of the tests' fault points")

/** The plugin for one Spark minor: the shared sources, and those that only this minor sees. */
def sparkSettings(minor: String) = common ++ Seq(
  name := s"spark-megaphone_$minor",
  /* The project's folder is its target folder: two projects share one source tree, and whatever a
   * test leaves in its working folder is cleaned with the rest. */
  target := baseDirectory.value,
  sourcesInBase := false,
  Compile / unmanagedSourceDirectories := sparkSources("main", minor).value,
  Test / unmanagedSourceDirectories := sparkSources("test", minor).value,
  Compile / unmanagedResourceDirectories := sparkResources("main", minor).value,
  Test / unmanagedResourceDirectories := sparkResources("test", minor).value,
  /* `spark.testing` turns Spark's stricter checks on and hands a local cluster's executors this
   * JVM's class path, so no Spark installation is needed. */
  Test / javaOptions ++= Jvm.SparkOptions ++ Jvm.ShortLived ++ Seq(
    "-Dspark.testing=true",
    s"-Dspark.test.home=${baseDirectory.value}",
    "-Dlog4j2.configurationFile=" +
      ((ThisBuild / baseDirectory).value / "project" / "log4j2-test.properties").toURI,
    "-Dspark.ui.enabled=false",
    "-Dspark.ui.showConsoleProgress=false",
    "-Dspark.driver.bindAddress=127.0.0.1"
  ),
  Test / envVars ++= Map(
    "SPARK_TESTING" -> "1",
    "SPARK_SCALA_VERSION" -> "2.13",
    "SPARK_LOCAL_IP" -> "127.0.0.1"
  ),
  Compile / resourceGenerators += Def.task {
    Seq("LICENSE", "NOTICE").map { name =>
      val copy = (Compile / resourceManaged).value / "META-INF" / name
      IO.copyFile((ThisBuild / baseDirectory).value / name, copy)
      copy
    }
  }.taskValue,
  // Only our own classes, by construction: nothing else is on the class path that is assembled.
  assembly / fullClasspath :=
    (Compile / exportedProducts).value ++ (core / Compile / exportedProducts).value,
  assembly / assemblyJarName := s"spark-megaphone_${minor}_2.13-${version.value}.jar",
  assembly / assemblyMergeStrategy := (_ => MergeStrategy.singleOrError),
  assembly / assemblyOutputPath := target.value / (assembly / assemblyJarName).value,
  assembly / test := {},
  faultsJar := {
    (Test / compile).value
    (Test / copyResources).value
    val classes = (Test / classDirectory).value
    val ours = Seq("io/megaphone/spark/faults", "io/megaphone/spark/shapes", "META-INF/services")
      .map(classes / _)
    val jar = target.value / "spark-megaphone-faults.jar"
    IO.zip(
      ours.flatMap(folder => (folder ** "*").get.filter(_.isFile)).pair(Path.relativeTo(classes)),
      jar,
      None
    )
    jar
  },
  // The jar is a plugin: its manifest names no class to run.
  Compile / packageBin / mainClass := None,
  assembly / mainClass := None
)

def sparkSources(kind: String, minor: String) = Def.setting {
  val src = (ThisBuild / baseDirectory).value / "jvm" / "spark" / "src" / kind
  Seq(src / "scala", src / "java", src / s"scala-spark-$minor")
}

def sparkResources(kind: String, minor: String) = Def.setting {
  val src = (ThisBuild / baseDirectory).value / "jvm" / "spark" / "src" / kind
  Seq(src / "resources", src / s"resources-spark-$minor")
}

lazy val root = project
  .in(file("."))
  .settings(name := "spark-megaphone", publish / skip := true, sourcesInBase := false)
  .aggregate(core, spark42, spark43)

/** Bins, routing tables, plans, logs, formats, and the simulation that runs them: no Spark on the
  * class path, so none can be imported.
  */
lazy val core = project.in(file("jvm/core")).settings(common).settings(name := "megaphone-core")

lazy val spark42 = project
  .in(file("jvm/spark/target/spark-4.2"))
  .dependsOn(core % "compile->compile;test->test")
  .settings(sparkSettings("4.2"))
  .settings(
    libraryDependencies ++= Seq("org.apache.spark" %% "spark-sql" % Versions.Spark42 % Provided),
    // What Spark's own suites are made of.
    libraryDependencies ++= Seq("core", "catalyst", "sql", "sql-api", "common-utils", "tags").map {
      part =>
        ("org.apache.spark" %% s"spark-$part" % Versions.Spark42 % Test).classifier("tests")
    },
    libraryDependencies += "org.scalatestplus" %% "mockito-5-12" % Versions.ScalaTestPlus % Test,
    // What checks that code needs Spark's private members; Spark 4.3 brings it.
    libraryDependencies += "org.scala-lang" % "scala-compiler" % Versions.Scala % Test,
    Test / testOptions ++= UpstreamCounts.options(baseDirectory.value / "upstream-counts"),
    /* Old checkpoints that Spark's suites open as files, which a jar cannot serve: unpacked, and
     * before the jar on the class path. */
    Test / unmanagedClasspath += {
      val folder = target.value / "spark-test-resources"
      val jar = update.value
        .matching(moduleFilter(name = "spark-sql_2.13") && artifactFilter(classifier = "tests"))
        .head
      if (!folder.exists)
        IO.unzip(jar, folder, (name: String) => name.startsWith("structured-streaming/"))
      Attributed.blank(folder)
    }
  )

lazy val spark43 = project
  .in(file("jvm/spark/target/spark-4.3"))
  .dependsOn(core % "compile->compile;test->test")
  .settings(sparkSettings("4.3"))
  .settings(
    Compile / unmanagedJars := Attributed
      .blankSeq(PySpark.jars((ThisBuild / baseDirectory).value, Versions.Spark43)),
    // Spark brings a newer one than ScalaTest asks for.
    excludeDependencies += ExclusionRule("org.scala-lang.modules", "scala-xml_2.13")
  )

lazy val published42 = project
  .in(file("jvm/spark/target/published-4.2"))
  .settings(Published.settings("4.2", spark42, core))

lazy val published43 = project
  .in(file("jvm/spark/target/published-4.3"))
  .settings(Published.settings("4.3", spark43, core))

/** Micro-benchmarks of the state store, on the Spark that users install. Not part of any test. */
lazy val benchmarks = project
  .in(file("benchmarks/jvm"))
  .enablePlugins(JmhPlugin)
  .dependsOn(spark43)
  .settings(common)
  .settings(
    name := "megaphone-benchmarks",
    Jmh / javaOptions ++= Jvm.SparkOptions :+ "-Xmx6g",
    excludeDependencies += ExclusionRule("org.scala-lang.modules", "scala-xml_2.13")
  )
