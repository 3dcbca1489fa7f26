// The sealed ACME records in the store: the account and the certificate, each with its key. So a restart
// needs no new order, and every replica presents the same certificate.

import type { KeyObject } from 'node:crypto';
import { HansaError } from '../../../core/errors/error.ts';
import { exportPkcs8, importPkcs8 } from '../../../core/identity/x509/keys.ts';
import { commitFenced } from '../../../core/lease/current-fence.ts';
import { readSealed } from '../../../core/store/reader.ts';
import type { Sealer } from '../../../core/store/sealing/sealer.ts';
import type { Commit, Store } from '../../../core/store/store.ts';

export const acmeCollection = 'trust.acme';

export interface AcmeAccount {
  readonly directoryUrl: string;
  readonly key: KeyObject;
  /** Undefined until the server has told it. */
  readonly url: string | undefined;
}

export interface KeptCertificate {
  readonly directoryUrl: string;
  readonly dnsName: string;
  /** PEM. */
  readonly certificateChain: string;
  readonly privateKey: string;
  readonly renewAtMs: number;
}

type RecordName = 'account' | 'certificate';
const recordVersion = 1;

export class AcmeRecords {
  readonly #store: Pick<Store, 'get' | 'commit'>;
  readonly #sealer: Sealer;

  constructor(store: Pick<Store, 'get' | 'commit'>, sealer: Sealer) {
    this.#store = store;
    this.#sealer = sealer;
  }

  async account(): Promise<AcmeAccount | undefined> {
    const fields = await this.#load('account');
    if (fields === undefined) return undefined;
    const { directoryUrl, key, url } = fields;
    if (typeof directoryUrl !== 'string' || typeof key !== 'string') throw corrupt('account');
    const pkcs8 = Buffer.from(key, 'base64');
    try {
      const known = typeof url === 'string' ? url : undefined;
      return { directoryUrl, key: importPkcs8(pkcs8), url: known };
    } finally {
      pkcs8.fill(0);
    }
  }

  async keepAccount(account: AcmeAccount, fence: Commit['fence']): Promise<void> {
    const pkcs8 = exportPkcs8(account.key);
    const key = pkcs8.toString('base64');
    pkcs8.fill(0);
    await this.#keep('account', { ...account, key }, fence);
  }

  async certificate(): Promise<KeptCertificate | undefined> {
    const fields = await this.#load('certificate');
    if (fields === undefined) return undefined;
    const { directoryUrl, dnsName, certificateChain, privateKey, renewAtMs } = fields;
    if (
      typeof directoryUrl !== 'string' ||
      typeof dnsName !== 'string' ||
      typeof certificateChain !== 'string' ||
      typeof privateKey !== 'string' ||
      typeof renewAtMs !== 'number'
    ) {
      throw corrupt('certificate');
    }
    return { directoryUrl, dnsName, certificateChain, privateKey, renewAtMs };
  }

  async keepCertificate(certificate: KeptCertificate, fence: Commit['fence']): Promise<void> {
    await this.#keep('certificate', certificate, fence);
  }

  async #load(name: RecordName): Promise<Readonly<Record<string, unknown>> | undefined> {
    const entry = this.#store.get(acmeCollection, name);
    if (entry === undefined) return undefined;
    return readSealed(this.#sealer, placeOf(name), entry);
  }

  async #keep(name: RecordName, value: object, fence: Commit['fence']): Promise<void> {
    const plain = Buffer.from(JSON.stringify(value));
    const sealed = await this.#sealer.seal(placeOf(name), plain);
    plain.fill(0);
    await commitFenced(this.#store, {
      put: [{ collection: acmeCollection, name, encode: () => sealed }],
      ...(fence === undefined ? {} : { fence }),
    });
  }
}

const placeOf = (name: RecordName) =>
  ({ collection: acmeCollection, key: name, column: 'value', version: recordVersion }) as const;

function corrupt(name: RecordName): HansaError {
  return new HansaError(
    'HANSA_STORE_CORRUPT',
    `Cannot load the ACME ${name}: its record is corrupt. Restore the data folder from a backup.`,
  );
}
