// The client of a member that cannot be connected: `Federation` does not say how, or says something wrong.

import { HansaError } from '../../core/errors/error.ts';
import type { KubeResponse, KubeStream } from '../../core/kube/kube-client.ts';
import { KubeVerbs } from '../../core/kube/kube-verbs.ts';

export class UnconnectedClient extends KubeVerbs {
  readonly #why: string;

  constructor(clusterID: string, why: string) {
    super(clusterID);
    this.#why = why;
  }

  async request(): Promise<KubeResponse> {
    throw new HansaError(
      'HANSA_UNAVAILABLE',
      `Cannot connect to the member ${this.where}. ${this.#why}`,
    );
  }

  async stream(): Promise<KubeStream> {
    return (await this.request()) as never;
  }

  close(): void {}
}
