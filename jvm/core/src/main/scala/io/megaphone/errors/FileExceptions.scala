// SPDX-License-Identifier: Apache-2.0
package io.megaphone.errors

/** A file of ours that is damaged, truncated or not ours.
  *
  * @param bin
  *   the bin whose records are damaged, if it is known
  */
sealed class DamagedFileException(
    val file: String,
    val bin: Option[Int],
    val expected: String,
    val found: String
) extends RuntimeException(
      s"The file $file is damaged${bin.fold("")(b => s" at bin $b")}: expected $expected, " +
        s"found $found."
    )
    with MegaphoneError {
  override def condition: String = "DAMAGED_FILE"
}

/** A file that this release is too old to read. */
final class NewerFormatException(file: String, known: Int, version: Int)
    extends DamagedFileException(file, None, s"format version $known", version.toString) {
  override def condition: String = "NEWER_FORMAT"
  override def getMessage: String =
    s"The file $file has format version $version, where this release reads version $known: use " +
      "the release of spark-megaphone that wrote it, or a later one."
}

/** A file that should exist and does not. */
final class MissingFileException(val file: String)
    extends RuntimeException(
      s"The file $file is missing: it holds state that a version still to be read needs."
    )
    with MegaphoneError {
  override def condition: String = "MISSING_FILE"
}
