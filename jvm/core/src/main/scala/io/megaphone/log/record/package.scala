// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

/** The bytes of one record: its header word, its parts, and the hash and order of its key. It
  * depends on nothing but the standard libraries. Frames of delta files have the same layout, so it
  * changes only with a new format version.
  */
package object record
