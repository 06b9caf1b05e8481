// SPDX-License-Identifier: Apache-2.0
package io.megaphone

/** Where workers should run. It depends on nothing. A caller may rely on stickiness: a worker stays
  * where it is as long as its executor lives.
  */
package object placement
