// The OIDC issuer of a site that an API server trusts by structured authentication, so that the site needs no
// stored credential there: flags of both, and the configuration that `hansa cluster auth-config` prints.

import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '../e2e/free-ports.ts';
import { makeWebPki, type WebPki } from './web-pki.ts';

/** The API server starts before the site can print a configuration. It reads the file again when it changes. */
const trustsNone = {
  apiVersion: 'apiserver.config.k8s.io/v1',
  kind: 'AuthenticationConfiguration',
  jwt: [],
};

export class SiteIssuer {
  /** For `hansa server`. */
  readonly siteFlags: readonly string[];
  /** For kube-apiserver. */
  readonly apiserverFlags: readonly string[];
  readonly #pki: WebPki;
  readonly #file: string;

  private constructor(pki: WebPki, file: string, port: number) {
    this.#pki = pki;
    this.#file = file;
    this.siteFlags = [
      `--web=127.0.0.1:${port}`,
      `--serving-cert-cert-file=${pki.certificateFile}`,
      `--serving-cert-key-file=${pki.keyFile}`,
      `--jwt-issuer=https://localhost:${port}`,
    ];
    this.apiserverFlags = [`--authentication-config=${file}`];
    writeFileSync(file, JSON.stringify(trustsNone));
  }

  static async prepare(folder: string): Promise<SiteIssuer> {
    mkdirSync(folder, { recursive: true });
    const file = join(folder, 'authentication.yaml');
    return new SiteIssuer(makeWebPki(folder), file, await freePort());
  }

  /** `run` runs a command of the site. The API server trusts its tokens for this audience some time later. */
  async trust(run: (args: readonly string[]) => Promise<string>, audience: string): Promise<void> {
    const options = ['--audience', audience, '--issuer-ca-file', this.#pki.rootFile];
    const text = await run(['cluster', 'auth-config', ...options, '--part', 'configuration']);
    // The API server must not see half of it.
    writeFileSync(`${this.#file}.new`, text);
    renameSync(`${this.#file}.new`, this.#file);
  }
}
