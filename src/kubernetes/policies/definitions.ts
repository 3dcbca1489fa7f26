// The CRDs of the kinds of policies in one member. Their UIDs say whether a policy that is absent was deleted, or went
// with its CRD.

import type { Clock } from '../../core/clock/clock.ts';
import type { KubeClient, KubeObject } from '../../core/kube/kube-client.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import { kubePath } from '../../core/kube/kube-path.ts';
import { recordIn, textIn } from '../members/field-values.ts';
import { idOfKind, type PolicyKind } from './policy-kinds.ts';

export type PolicyDefinition =
  /** The UID is empty for a built-in kind, which has no CRD. */
  { readonly state: 'served'; readonly uid: string } | { readonly state: 'deleting' };

/** One request for many policies. Before a deletion is recorded, the CRD is read in any case. */
const recentMs = 30_000;

interface Known {
  readonly definition: PolicyDefinition;
  /** Monotonic. */
  readonly readMs: number;
}

export class Definitions {
  readonly #client: Pick<KubeClient, 'get'>;
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #known = new Map<string, Known>();
  readonly #reading = new Map<string, Promise<PolicyDefinition>>();

  constructor(client: Pick<KubeClient, 'get'>, clock: Pick<Clock, 'monotonic'>) {
    this.#client = client;
    this.#clock = clock;
  }

  /** As it was last read. Undefined before that. */
  known(kind: PolicyKind): PolicyDefinition | undefined {
    return this.#known.get(idOfKind(kind))?.definition;
  }

  /** As it is now. Rejects as `KubeClient.get`, except for 404. */
  async read(kind: PolicyKind): Promise<PolicyDefinition> {
    const readMs = this.#clock.monotonic();
    const definition = await this.#ask(kind);
    this.#known.set(idOfKind(kind), { definition, readMs });
    return definition;
  }

  /** As it was within the last 30 seconds. */
  async recent(kind: PolicyKind): Promise<PolicyDefinition> {
    const id = idOfKind(kind);
    const known = this.#known.get(id);
    if (known !== undefined && this.#clock.monotonic() - known.readMs < recentMs) {
      return known.definition;
    }
    const reading =
      this.#reading.get(id) ?? this.read(kind).finally(() => this.#reading.delete(id));
    this.#reading.set(id, reading);
    return reading;
  }

  /** After the kind was missing, another CRD may have its name. */
  forget(): void {
    this.#known.clear();
  }

  async #ask(kind: PolicyKind): Promise<PolicyDefinition> {
    const path = kubePath`/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${idOfKind(kind)}`;
    let found: KubeObject;
    try {
      found = await this.#client.get(path);
    } catch (error) {
      // What is served without a CRD is built in.
      if (error instanceof KubeStatusError && error.status === 404) {
        return { state: 'served', uid: '' };
      }
      throw error;
    }
    const { uid, deletionTimestamp } = recordIn(found.metadata);
    if (deletionTimestamp !== undefined && deletionTimestamp !== null) return { state: 'deleting' };
    return { state: 'served', uid: textIn(uid) ?? '' };
  }
}
