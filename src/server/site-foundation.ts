// Opens the data folder, the store, the audit log and the identity of a site. All other parts need
// them.

import { existsSync } from 'node:fs';
import { TrustDomain } from '../api/values/trust-domain.ts';
import { Audit } from '../core/audit/log.ts';
import { PublicLog } from '../core/audit/public-log.ts';
import { logSigner } from '../core/audit/restore-record.ts';
import type { Clock, Random } from '../core/clock/clock.ts';
import { authorityAudit, rotationActor } from '../core/identity/authority/audit.ts';
import { SiteAuthority } from '../core/identity/authority/authority.ts';
import { SiteCredentials } from '../core/identity/tls/site-credentials.ts';
import type { Log } from '../core/log/log.ts';
import type { Metrics } from '../core/metrics/metrics.ts';
import { loadOrCreateKey } from '../core/store/sealing/key-file.ts';
import { openStore } from '../core/store/open.ts';
import { createSealer, type Sealer } from '../core/store/sealing/sealer.ts';
import type { Store } from '../core/store/store.ts';
import type { ServerConfig } from './config/config.ts';
import { checkDataFile, replaceFile } from '../core/plane/data-files.ts';
import { refuseForeignFolder } from '../core/plane/data-folders.ts';
import { requireFreePorts } from './listeners/free-ports.ts';
import { dataFolderAt, type DataFolder, prepareDataFolder } from './data-folder.ts';
import { Health } from '../core/metrics/health.ts';
import {
  checkpointKey,
  foundingSecret,
  noTrustDomain,
  settleTrustDomain,
} from './secret-records.ts';
import { serverNames } from './listeners/server-names.ts';
import type { CleanupStack } from './cleanup-stack.ts';

export interface FoundationOptions {
  readonly config: ServerConfig;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
}

export interface Foundation {
  readonly folder: DataFolder;
  readonly health: Health;
  readonly store: Store;
  readonly sealer: Sealer;
  readonly trustDomain: TrustDomain;
  readonly audit: Audit;
  readonly publicLog: PublicLog;
  readonly authority: SiteAuthority;
  readonly credentials: SiteCredentials;
}

/** `cleanup` stops everything that this started, also after a failure half-way. */
export async function layFoundation(
  options: FoundationOptions,
  cleanup: CleanupStack,
): Promise<Foundation> {
  const { config, clock, random, log, metrics } = options;
  refuseForeignFolder(config.dataDir);
  // Checked first, so that a mistyped --data-dir or a port in use does not create a folder.
  const isNew = !existsSync(dataFolderAt(config.dataDir).store);
  if (isNew && config.trustDomain === undefined) throw noTrustDomain();
  if (isNew) await requireFreePorts(config);
  const folder = prepareDataFolder(config.dataDir);
  const health = new Health();

  const store = await openStore({ driver: 'sqlite', path: folder.store }, { clock, log, metrics });
  cleanup.add(() => store.close());
  health.add('store', () => store.problem?.message);
  // After the lock of the store, so that the message of a second site in this folder names the folder.
  if (!isNew) await requireFreePorts(config);
  if (config.keyFile === undefined) checkDataFile(folder.keyFile);
  // The first commit comes after the key.
  const sealed = store.revision === 0 ? undefined : `the store of ${folder.path}`;
  const keyFile = config.keyFile ?? folder.keyFile;
  const sealer = createSealer(await loadOrCreateKey(keyFile, random, sealed), random);
  const trustDomain = TrustDomain.parse(await settleTrustDomain(store, config.trustDomain));

  const key = await checkpointKey(store, sealer, random);
  const signer = logSigner(store, trustDomain.name, key);
  const audit = new Audit({ store, clock, signer, log, metrics });
  await audit.start();
  cleanup.add(() => audit.stop());
  health.add('audit', () => audit.problem?.message);
  const publicLog = new PublicLog({ audit, store, clock, signer, log, metrics });
  cleanup.add(() => publicLog.stop());

  const authority = await SiteAuthority.open({
    trustDomain,
    clock,
    random,
    vault: foundingSecret(store, sealer, 'authorities'),
    keyType: config.authority.keyType,
    jwtKeyType: config.authority.jwtKeyType,
    rootTtlSeconds: config.authority.ttlSeconds,
    upstream: config.authority.upstream,
    clockTrustedUntilMs: config.authority.clockTrustedUntilMs,
    audit: authorityAudit(
      audit,
      rotationActor,
      'the site started without an authority that can sign',
    ),
  });
  health.add('authorities', () => authority.problem);
  const credentials = await SiteCredentials.start({
    authority,
    clock,
    random,
    log,
    ...serverNames(config, trustDomain.name),
  });
  cleanup.add(() => credentials.stop());
  health.add('certificate', () =>
    credentials.current.notAfterMs > clock.now() ? undefined : 'the SVID of the site has expired',
  );
  // Clients that verify this site with the file need an authority before it signs.
  let written: string | undefined;
  const writeAuthorities = (): void => {
    const { pem } = authority.bundle;
    if (pem === written) return;
    try {
      replaceFile(folder.caFile, pem, 0o644);
      written = pem;
    } catch (error) {
      log.error('cannot write the file with the authorities of this site', { error });
    }
  };
  writeAuthorities();
  cleanup.add(authority.onChange(writeAuthorities));
  // Retries after a failure, such as a full disk.
  cleanup.add(credentials.onRenewal(writeAuthorities));
  return { folder, health, store, sealer, trustDomain, audit, publicLog, authority, credentials };
}
