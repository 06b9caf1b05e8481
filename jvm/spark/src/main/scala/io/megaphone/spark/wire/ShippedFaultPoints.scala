// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.wire

import java.util.ServiceLoader

import scala.jdk.CollectionConverters._

import io.megaphone.runtime.FaultPoints

/** The fault points of this process. A jar of the tests brings an implementation as a Java service;
  * without such a jar they do nothing.
  */
object ShippedFaultPoints {
  lazy val instance: FaultPoints = ServiceLoader
    .load(classOf[FaultPoints], getClass.getClassLoader)
    .asScala
    .headOption
    .getOrElse(FaultPoints.Off)
}
