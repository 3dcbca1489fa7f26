// Compares the cost of issuing an SVID with that of its signature only, and validation with
// signature verification only. `node bench/identity.ts` prints one JSON object per line.

import { generateKeyPairSync, sign, verify } from 'node:crypto';
import { SpiffeId } from '../src/api/values/spiffe-id.ts';
import { TrustDomain } from '../src/api/values/trust-domain.ts';
import { systemClock, systemRandom } from '../src/core/clock/system.ts';
import { SiteAuthority } from '../src/core/identity/authority/authority.ts';
import { Certificate } from '../src/core/identity/x509/certificate.ts';
import { generateP256, PublicKey } from '../src/core/identity/x509/keys.ts';
import { validateChain } from '../src/core/identity/x509/svid-validator.ts';
import { MemoryVault } from '../src/core/identity/authority/test-vault.ts';
import { type Figure, median, rounded, spread } from './figure.ts';
import { sized } from './size.ts';

const rounds = sized(7, 5, 1);
const operations = sized(10_000, 10_000, 500);

const trustDomain = TrustDomain.parse('lubeck.example');
/** A hundred workloads whose SVIDs are issued again and again, as those of a site are. */
const identities = Array.from({ length: 100 }, (_, i) =>
  SpiffeId.of(trustDomain, 'web', String(i)),
);
let turn = 0;
const nextIdentity = (): SpiffeId => identities[turn++ % identities.length] as SpiffeId;
const authority = await SiteAuthority.open({
  trustDomain,
  vault: new MemoryVault(),
  clock: systemClock,
  random: systemRandom,
});
const publicKey = PublicKey.of(await generateP256(systemRandom));
const svid = await authority.issue({ spiffeId: nextIdentity(), publicKey });
const der = svid.chain[0] as Buffer;
const leaf = Certificate.parse(der);
const bundles = { bundleFor: () => authority.bundle };
const { privateKey: bareKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
const issuerKey = authority.certificate.publicKey;

/** Operations in a second of CPU time of this process, its threads included. */
async function perCpuSecond(operation: () => unknown): Promise<number> {
  const before = process.cpuUsage();
  for (let i = 0; i < operations; i++) await operation();
  const { user, system } = process.cpuUsage(before);
  return operations / ((user + system) / 1e6);
}

async function compare(
  bench: string,
  ours: () => unknown,
  anchor: string,
  bare: () => unknown,
  aim: number,
): Promise<void> {
  const measured: { ours: number[]; bare: number[] } = { ours: [], bare: [] };
  // Turn by turn, so that what else the machine does hits both; the first two rounds warm up.
  for (let round = -2; round < rounds; round++) {
    const one = await perCpuSecond(ours);
    const other = await perCpuSecond(bare);
    if (round < 0) continue;
    measured.ours.push(one);
    measured.bare.push(other);
  }
  const value = median(measured.ours);
  const anchorValue = median(measured.bare);
  const figure: Figure = {
    bench,
    value: rounded(value),
    unit: 'per CPU-second',
    ...spread(measured.ours),
    anchor,
    anchorValue: rounded(anchorValue),
    ratio: rounded(value / anchorValue),
    cpuMicrosEach: rounded(1e6 / value),
    anchorCpuMicrosEach: rounded(1e6 / anchorValue),
    aim,
  };
  console.log(JSON.stringify(figure));
}

await compare(
  'svid-issue',
  () => authority.issue({ spiffeId: nextIdentity(), publicKey }),
  'ECDSA P-256 signature alone',
  () => sign('sha256', leaf.tbs, bareKey),
  0.85,
);
await compare(
  'svid-validate',
  () => validateChain([leaf], bundles, systemClock.now()),
  'ECDSA P-256 verification alone',
  () => verify('sha256', leaf.tbs, issuerKey, leaf.signature),
  0.9,
);
await compare(
  'svid-parse-and-validate',
  () => validateChain([Certificate.parse(der)], bundles, systemClock.now()),
  'ECDSA P-256 verification alone',
  () => verify('sha256', leaf.tbs, issuerKey, leaf.signature),
  0.8,
);
