// What sites have acknowledged to their operators. It must be durable at that moment, and still be so at the end,
// unless an operator has changed it since.

import assert from 'node:assert/strict';
import type { World } from './world.ts';

type Holds = (value: Buffer | undefined) => boolean;

interface Written {
  readonly site: string;
  readonly collection: string;
  readonly name: string;
  /** Writes that have no answer yet. Whatever happened to them, they may take effect. */
  underWay: number;
  holds: Holds | undefined;
}

export class AcknowledgedWrites {
  readonly #world: World;
  readonly #written = new Map<string, Written>();

  constructor(world: World) {
    this.#world = world;
  }

  /**
   * An operator is about to write. Call the result with what must be durable when the site has acknowledged it.
   * Nothing is expected of a record with several writes under way, or with one that was never acknowledged.
   */
  begin(site: string, collection: string, name: string): (holds: Holds) => void {
    const key = `${site}|${collection}|${name}`;
    const written = this.#written.get(key) ?? {
      site,
      collection,
      name,
      underWay: 0,
      holds: undefined,
    };
    this.#written.set(key, written);
    written.underWay += 1;
    written.holds = undefined;
    const isAlone = written.underWay === 1;
    return (holds) => {
      if (!isAlone || written.underWay > 1 || this.#written.get(key) !== written) return;
      written.underWay = 0;
      written.holds = holds;
      this.#check(written, 'when it acknowledged it');
    };
  }

  /** The database of the site was replaced by an older copy. */
  putBack(site: string): void {
    for (const [key, written] of this.#written)
      if (written.site === site) this.#written.delete(key);
  }

  check(): void {
    for (const written of this.#written.values()) this.#check(written, 'any more');
  }

  #check({ site, collection, name, holds }: Written, when: string): void {
    if (holds === undefined) return;
    const value = this.#world.database(site).read(collection, name);
    const isDurable = holds(value);
    try {
      assert.ok(
        isDurable,
        `${site} does not have what it acknowledged of ${collection} ${name} ${when}`,
      );
    } catch (error) {
      this.#world.simulation.fail(error);
    }
  }
}
