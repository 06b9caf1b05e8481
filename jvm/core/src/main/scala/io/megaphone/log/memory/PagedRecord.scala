// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log.memory

import java.util

import io.megaphone.log.record.{Record, Words}
import io.megaphone.log.record.Cursor

/** Reads and writes the record at a position of some pages. */
private[log] object PagedRecord {

  def header(pages: Pages, position: Int): Long = {
    val slot = pages.baseSlot(position)
    Words.get(pages.page(slot, position), pages.offset(slot, position))
  }

  /** Hash of the record's key. */
  def hash(pages: Pages, position: Int): Int = {
    val slot = pages.baseSlot(position)
    val page = pages.page(slot, position)
    val at = pages.offset(slot, position)
    Words.hash(page, at + Record.HeaderBytes, Record.keyBytes(Words.get(page, at)))
  }

  /** Whether the record's key is the one given. */
  def hasKey(
      pages: Pages,
      position: Int,
      key: Array[Byte],
      keyOffset: Int,
      keyBytes: Int
  ): Boolean = {
    val slot = pages.baseSlot(position)
    val page = pages.page(slot, position)
    val at = pages.offset(slot, position)
    Record.keyBytes(Words.get(page, at)) == keyBytes && {
      val from = at + Record.HeaderBytes
      util.Arrays.equals(page, from, from + keyBytes, key, keyOffset, keyOffset + keyBytes)
    }
  }

  /** Compares the record's key with the one given, by unsigned bytes; see `Words.compare`. */
  def compareKey(
      pages: Pages,
      position: Int,
      key: Array[Byte],
      keyOffset: Int,
      keyBytes: Int
  ): Int = {
    val slot = pages.baseSlot(position)
    val page = pages.page(slot, position)
    val at = pages.offset(slot, position)
    Words.compare(
      page,
      at + Record.HeaderBytes,
      Record.keyBytes(Words.get(page, at)),
      key,
      keyOffset,
      keyBytes
    )
  }

  /** Compares the keys of two records, by unsigned bytes. */
  def compareKeys(pages: Pages, one: Int, other: Int): Int = {
    val slot = pages.baseSlot(other)
    val page = pages.page(slot, other)
    val at = pages.offset(slot, other)
    compareKey(pages, one, page, at + Record.HeaderBytes, Record.keyBytes(Words.get(page, at)))
  }

  /** Moves a cursor to the record. */
  def moveTo(pages: Pages, position: Int, cursor: Cursor): Unit = {
    val slot = pages.baseSlot(position)
    cursor.set(pages.page(slot, position), pages.offset(slot, position))
  }

  /** Appends a record and returns its position. */
  def append(
      pages: Pages,
      header: Long,
      key: Array[Byte],
      keyOffset: Int,
      value: Array[Byte],
      valueOffset: Int
  ): Int = {
    val position = pages.reserve(Record.size(header))
    val slot = pages.baseSlot(position)
    val page = pages.page(slot, position)
    val at = pages.offset(slot, position)
    val keyBytes = Record.keyBytes(header)
    val valueBytes = Record.valueBytes(header)
    Words.set(page, at, header)
    copyPadded(key, keyOffset, keyBytes, page, at + Record.HeaderBytes)
    copyPadded(
      value,
      valueOffset,
      valueBytes,
      page,
      at + Record.HeaderBytes + Record.padded(keyBytes)
    )
    position
  }

  /** Appends a copy of the record to other pages and returns its position there. */
  def copy(pages: Pages, position: Int, to: Pages): Int = {
    val bytes = Record.size(header(pages, position))
    val target = to.reserve(bytes)
    System.arraycopy(
      pages.page(position),
      pages.offset(position),
      to.page(target),
      to.offset(target),
      bytes
    )
    target
  }

  private def copyPadded(
      from: Array[Byte],
      fromOffset: Int,
      length: Int,
      to: Array[Byte],
      toOffset: Int
  ): Unit = {
    // A page may have stale bytes of an undone tail.
    if ((length & 7) != 0) Words.set(to, toOffset + (length & ~7), 0L)
    System.arraycopy(from, fromOffset, to, toOffset, length)
  }
}
