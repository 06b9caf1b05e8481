// SPDX-License-Identifier: Apache-2.0
package io.megaphone

/** Where workers should run, and who should stand by for them: pure functions. It depends on
  * nothing. A caller may rely on stickiness: a worker keeps its place as long as its executor runs
  * tasks, unless the load is to be spread or the executor is to be emptied. Equal questions have
  * equal answers.
  */
package object placement
