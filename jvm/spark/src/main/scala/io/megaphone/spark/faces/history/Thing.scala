// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.history

import scala.annotation.meta.getter

import com.fasterxml.jackson.databind.JsonNode
import org.apache.spark.util.kvstore.KVIndex

/** The newest event about a thing, in the UI's store. A class of its own at the top level, because
  * the store on disk makes its objects by reflection, and its name is in the store's files.
  *
  * Things are read by kind and run, in their places. Stores in memory have an index for that only
  * if the ids have the same parent; stores on disk know no parent of ids.
  *
  * @param id
  *   of the thing
  * @param run
  *   of the query
  * @param of
  *   its kind and run: things are looked up by it
  * @param place
  *   ascends in the order in which things were first seen
  * @param time
  *   of the event, in milliseconds since 1970
  * @param body
  *   as the event has it: it may be large, so nothing is made of it until a page asks
  */
final class Thing(
    @(KVIndex @getter)(parent = "of") val id: String,
    val run: String,
    @(KVIndex @getter)("of") val of: String,
    @(KVIndex @getter)(value = "place", parent = "of") val place: Long,
    val time: Long,
    val body: JsonNode
)
