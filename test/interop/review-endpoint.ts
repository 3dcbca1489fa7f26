// The side of Hansa in the TokenReview comparison: a real site, in which the cluster of the scene is
// registered once for each mode.

import { type KubeApiserver, serviceAccountIssuer } from './kube-apiserver.ts';
import { type Asked, everywhere, type Mode } from './review-case.ts';
import { type Site, startSite } from './site.ts';
import type { WireAnswer, WireRequest } from './wire.ts';

export class ReviewEndpoint {
  readonly #site: Site;

  private constructor(site: Site) {
    this.#site = site;
  }

  static async start(kube: Pick<KubeApiserver, 'url' | 'ca' | 'token'>): Promise<ReviewEndpoint> {
    const endpoint = new ReviewEndpoint(await startSite());
    try {
      for (const mode of everywhere) await endpoint.#register(mode, kube);
      return endpoint;
    } catch (error) {
      await endpoint.stop();
      throw error;
    }
  }

  stop(): Promise<void> {
    return this.#site.stop();
  }

  /** Asks as a stock client does: the host name says which cluster. */
  ask(
    mode: Mode,
    { body, contentType, accept }: Asked,
    version: 'v1' | 'v1beta1' = 'v1',
  ): Promise<WireAnswer> {
    return this.#site.client.send({
      method: 'POST',
      path: `/apis/authentication.k8s.io/${version}/tokenreviews`,
      headers: {
        host: `api.${mode}.kube-fed.svc.cluster.local`,
        ...(contentType === undefined ? {} : { 'content-type': contentType }),
        ...(accept === undefined ? {} : { accept }),
      },
      body,
    });
  }

  async #register(
    mode: Mode,
    { url, ca, token }: Pick<KubeApiserver, 'url' | 'ca' | 'token'>,
  ): Promise<void> {
    const cluster = {
      apiVersion: 'hansa.dev/v1alpha1',
      kind: 'Cluster',
      metadata: { name: mode },
      spec: {
        issuer: serviceAccountIssuer,
        apiServer: url,
        caBundle: ca,
        // The tests sign with keys of the API server with which it does not sign itself.
        sharesKeys: true,
        validation: { mode },
      },
    };
    await this.#send({
      method: 'POST',
      path: '/apis/hansa.dev/v1alpha1/clusters',
      body: JSON.stringify(cluster),
    });
    await this.#send({
      method: 'PUT',
      path: `/hansa/v1/clusters/${mode}/credential`,
      body: JSON.stringify({ token }),
    });
  }

  async #send(request: WireRequest): Promise<void> {
    const { status, text } = await this.#site.client.send(request);
    if (status >= 300) throw new Error(`the site refused ${request.path}: ${text}`);
  }
}
