// SPDX-License-Identifier: Apache-2.0
/** How the JVMs that run Spark are started. */
object Jvm {

  /** What `org.apache.spark.launcher.JavaModuleOptions` of Spark 4.3 gives every driver and
    * executor; unknown ones are ignored by older JVMs.
    */
  val SparkOptions: Seq[String] = Seq(
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-modules=jdk.incubator.vector",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.invoke=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/java.net=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent.atomic=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.cs=ALL-UNNAMED",
    "--add-opens=java.base/sun.security.action=ALL-UNNAMED",
    "--add-opens=java.base/sun.util.calendar=ALL-UNNAMED",
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED"
  )

  /** For what runs each line a few times: the compiler that makes the fastest code would take half
    * of the time for itself.
    */
  val ShortLived: Seq[String] = Seq("-XX:TieredStopAtLevel=1")

  /** The default collector would start a cycle for each of the blocks of megabytes that Spark
    * allocates in every batch.
    */
  val TestMemory: Seq[String] =
    Seq("-Xmx2g", "-Xss4m", "-XX:ReservedCodeCacheSize=256m", "-XX:+UseParallelGC")
}
