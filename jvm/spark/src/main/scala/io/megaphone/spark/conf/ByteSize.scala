// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.conf

import org.apache.spark.network.util.JavaUtils

/** A number of bytes as Spark writes it: `1048576`, `512m`, `8g`. */
private[conf] object ByteSize {

  /** None if the text is no such number. */
  def parse(text: String): Option[Long] =
    try Some(JavaUtils.byteStringAsBytes(text.trim))
    catch { case _: NumberFormatException => None }
}
