// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql

/** The code that does not compile outside Spark's own packages, because it needs members that are
  * private to Spark. It depends on Spark and on the core only, and holds no logic of the plugin.
  * Each file names the private members that it needs and the Spark versions (4.2, 4.3) that have
  * them.
  */
package object megaphone
