// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.wire

import io.megaphone.errors.DamagedFileException
import io.megaphone.format.{Checksum, Decoder, Encoder, StateName, StoreId, StoreKey}

/** What several of the executors' requests and answers are made of. */
private[wire] object WireParts {

  def store(out: Encoder, key: StoreKey): Encoder =
    out.string(key.run).long(key.id.operator).string(key.id.store)
  def store(in: Decoder): StoreKey = StoreKey(in.string(), StoreId(in.long(), in.string()))

  def name(out: Encoder, name: StateName): Encoder = out.long(name.version).string(name.id)
  def name(in: Decoder): StateName = StateName(in.long(), in.string())

  /** Bytes with their checksum: what is kept or taken in is as good as a file's. */
  def checked(out: Encoder, bytes: Array[Byte]): Encoder = out.int(Checksum.of(bytes)).blob(bytes)

  /** The same bytes. Throws DamagedFileException, which names `what`. */
  def checked(in: Decoder, what: => String): Array[Byte] = {
    val expected = in.int()
    val bytes = in.blob()
    val found = Checksum.of(bytes)
    if (found != expected)
      throw new DamagedFileException(
        what,
        None,
        f"the checksum 0x$expected%08x",
        f"0x$found%08x"
      )
    bytes
  }
}
