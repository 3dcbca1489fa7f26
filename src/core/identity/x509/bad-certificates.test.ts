// What a certificate can get wrong of SPIFFE-ID and X.509-SVID, judged by everything that judges
// certificates: the validator refuses it of others, the linter would not have it signed by us, and
// both name the same rule with its section. What only the path can get wrong is in
// svid-validator.test.ts.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { TrustDomain } from '../../../api/values/trust-domain.ts';
import { HansaError } from '../../errors/error.ts';
import { keyUsageBits } from './extensions.ts';
import { lintLeaf, lintSigning } from './lint.ts';
import { brokenRule, type Rule, rules } from './rules.ts';
import { parseChain, validateChain } from './svid-validator.ts';
import {
  BundleTable,
  extension,
  forge,
  type Forged,
  type ForgeOptions,
  forgeLeaf,
  forgeRoot,
  purposes,
} from './test-forge.ts';

const lubeck = TrustDomain.parse('lubeck.example');
const web = 'spiffe://lubeck.example/web';
const root = forgeRoot(lubeck.name);
const bundles = new BundleTable().set(lubeck.name, root);

/** Refused with this rule, in words that name the rule and where it stands. */
function refuses(rule: Rule, act: () => unknown, says?: RegExp): void {
  assert.throws(act, (caught: unknown) => {
    assert(caught instanceof HansaError, String(caught));
    assert.equal(brokenRule(caught), rule, caught.message);
    assert(caught.message.includes(`(${rule}; ${rules[rule]})`), caught.message);
    if (says !== undefined) assert.match(caught.message, says);
    return true;
  });
}

const validate = (chain: readonly Forged[]) =>
  validateChain(parseChain(chain.map(({ der }) => der)), bundles, Date.now());

suite('an identity that is none is refused of a leaf, of its issuer, and by the linter', () => {
  const longDomain = 'x'.repeat(256);
  const identities: readonly (readonly [what: string, uri: string, says: RegExp])[] = [
    ['a scheme in upper case', 'SPIFFE://lubeck.example/web', /does not start with/],
    ['no trust domain', 'spiffe:///web', /it is empty/],
    ['nothing but its scheme', 'spiffe://', /it is empty/],
    ['a trust domain in upper case', 'spiffe://LUBECK.example/web', /upper-case/],
    ['a port', 'spiffe://lubeck.example:8443/web', /may only have/],
    ['an empty port', 'spiffe://lubeck.example:/web', /may only have/],
    ['a user', 'spiffe://ada@lubeck.example/web', /may only have/],
    ['a user and a password', 'spiffe://ada:secret@lubeck.example/web', /may only have/],
    ['an IPv6 address', 'spiffe://[2001:db8::1]/web', /may only have/],
    ['a percent-encoded trust domain', 'spiffe://lubeck%2eexample/web', /may only have/],
    ['a trust domain of 256 bytes', `spiffe://${longDomain}/web`, /longer than 255/],
    ['a percent-encoded letter', 'spiffe://lubeck.example/%77eb', /may only have/],
    ['a percent-encoded slash', 'spiffe://lubeck.example/a%2fb', /may only have/],
    ['a query', 'spiffe://lubeck.example/web?role=admin', /may only have/],
    ['a query after its trust domain', 'spiffe://lubeck.example?x', /may only have/],
    ['a fragment', 'spiffe://lubeck.example/web#admin', /may only have/],
    ['an empty segment', 'spiffe://lubeck.example/a//web', /empty segment/],
    ['an empty first segment', 'spiffe://lubeck.example//web', /empty segment/],
    ['a slash at its end', 'spiffe://lubeck.example/web/', /ends with a slash/],
    ['nothing but a slash for a path', 'spiffe://lubeck.example/', /ends with a slash/],
    ['a dot for a segment', 'spiffe://lubeck.example/./web', /a segment of its path is \. or \.\./],
    [
      'two dots for a segment',
      'spiffe://lubeck.example/db/../web',
      /a segment of its path is \. or \.\./,
    ],
    [
      'two dots at its end',
      'spiffe://lubeck.example/web/..',
      /a segment of its path is \. or \.\./,
    ],
    ['a backslash', 'spiffe://lubeck.example/a\\web', /may only have/],
    ['a parameter', 'spiffe://lubeck.example/web;v=1', /may only have/],
    ['a space', 'spiffe://lubeck.example/web page', /may only have/],
    ['a line break', 'spiffe://lubeck.example/web\n', /may only have/],
    ['a NUL', 'spiffe://lubeck.example/web\0', /may only have/],
    ['2,049 bytes', `spiffe://lubeck.example/${'a'.repeat(2025)}`, /longer than 2048/],
  ];
  for (const [what, uri, says] of identities) {
    test(`an identity with ${what} (spiffe-id)`, () => {
      refuses('spiffe-id', () => validate([forgeLeaf(root, uri)]), says);
      refuses('spiffe-id', () => lintLeaf(forgeLeaf(root, uri).certificate, lubeck), says);
      const issuer = forge({ issuer: root, ca: true, uris: [uri] });
      refuses('spiffe-id', () => validate([forgeLeaf(issuer, web), issuer]), says);
      refuses('spiffe-id', () => lintSigning(issuer.certificate, lubeck), says);
    });
  }

  test('one of exactly 2,048 bytes is believed', () => {
    const longest = `spiffe://lubeck.example/${'a'.repeat(2024)}`;
    assert.equal(longest.length, 2048);
    assert.equal(validate([forgeLeaf(root, longest)]).id.toString(), longest);
  });
});

suite('a leaf is refused by validator and linter alike', () => {
  const { digitalSignature, keyAgreement, keyCertSign, crlSign } = keyUsageBits;
  const both = [purposes.server, purposes.client];
  const anyPurpose = Buffer.from('551d2500', 'hex');
  const emptyBits = extension('551d0f', true, Buffer.from('030100', 'hex'));
  const table: readonly (readonly [what: string, rule: Rule, options: ForgeOptions])[] = [
    ['two URI names', 'exactly-one-uri', { uris: [web, 'spiffe://lubeck.example/db'] }],
    ['the same URI name twice', 'exactly-one-uri', { uris: [web, web] }],
    ['a SPIFFE ID before a web address', 'exactly-one-uri', { uris: [web, 'https://a.example'] }],
    ['a web address before a SPIFFE ID', 'exactly-one-uri', { uris: ['https://a.example', web] }],
    ['DNS names alone', 'exactly-one-uri', { uris: [], dnsNames: ['lubeck.example'] }],
    ['the flag of a CA', 'leaf-not-ca', { ca: true }],
    ['the flag and the key usage of a CA', 'leaf-not-ca', { ca: true, keyUsage: keyCertSign }],
    ['no key usage', 'key-usage', { keyUsage: null }],
    ['a key usage that is not critical', 'key-usage', { keyUsageCritical: false }],
    ['a key usage of nothing', 'leaf-key-usage', { keyUsage: null, extra: [emptyBits] }],
    ['a key usage without digitalSignature', 'leaf-key-usage', { keyUsage: keyAgreement }],
    ['a key usage that signs', 'leaf-key-usage', { keyUsage: digitalSignature | keyCertSign }],
    ['a key usage that revokes', 'leaf-key-usage', { keyUsage: digitalSignature | crlSign }],
    ['the key usage of a CA alone', 'leaf-key-usage', { keyUsage: keyCertSign | crlSign }],
    ['the purpose of a server alone', 'extended-key-usage', { purposes: [purposes.server] }],
    ['the purpose of a client alone', 'extended-key-usage', { purposes: [purposes.client] }],
    ['any purpose in the place of both', 'extended-key-usage', { purposes: [anyPurpose] }],
    ['no path', 'leaf-path', { uris: ['spiffe://lubeck.example'] }],
  ];
  for (const [what, rule, options] of table) {
    test(`with ${what} (${rule})`, () => {
      const leaf = forgeLeaf(root, web, { purposes: both, ...options });
      refuses(rule, () => validate([leaf]));
      refuses(rule, () => lintLeaf(leaf.certificate, lubeck));
    });
  }

  const unreadable: readonly (readonly [what: string, rule: Rule, extra: Buffer])[] = [
    // X.690 §11.2.2: named bits end with a one.
    ['trailing zeros', 'malformed-der', extension('551d0f', true, Buffer.from('03020080', 'hex'))],
    [
      'eight unused bits',
      'malformed-der',
      extension('551d0f', true, Buffer.from('030208ff', 'hex')),
    ],
    ['no bit string', 'malformed-der', extension('551d0f', true, Buffer.from('020101', 'hex'))],
    [
      'a length beyond its end',
      'malformed-der',
      extension('551d0f', true, Buffer.from('0309', 'hex')),
    ],
  ];
  for (const [what, rule, extra] of unreadable) {
    test(`with a key usage of ${what} (${rule})`, () => {
      refuses(rule, () => validate([forgeLeaf(root, web, { keyUsage: null, extra: [extra] })]));
    });
  }

  test('and may have other names beside its one URI', () => {
    const leaf = forgeLeaf(root, web, { dnsNames: ['web.lubeck.example', 'web'] });
    assert.equal(validate([leaf]).id.toString(), web);
  });

  test('and may say keyEncipherment and keyAgreement beside digitalSignature', () => {
    const keyUsage = digitalSignature | keyAgreement | (1 << 2);
    assert.equal(validate([forgeLeaf(root, web, { keyUsage })]).id.toString(), web);
  });
});

suite('a certificate that identifies nobody', () => {
  test('is an authority that shows itself (leaf-not-ca)', () => {
    refuses('leaf-not-ca', () => validate([root]));
  });

  test('is an intermediate that shows itself (leaf-not-ca)', () => {
    const issuer = forge({ issuer: root, ca: true, uris: ['spiffe://lubeck.example'] });
    refuses('leaf-not-ca', () => validate([issuer]));
    refuses('leaf-not-ca', () => validate([issuer, root]));
  });

  test('is one that a leaf signed (signing-is-ca)', () => {
    const leaf = forgeLeaf(root, web);
    refuses('signing-is-ca', () => validate([forgeLeaf(leaf, 'spiffe://lubeck.example/db'), leaf]));
  });

  test('is a leaf that signed itself (unknown-authority)', () => {
    const own = forge({ ca: false, uris: [web], purposes: [purposes.server, purposes.client] });
    refuses('unknown-authority', () => validate([own]));
  });
});

suite('a signing certificate is refused by validator and linter alike', () => {
  const { digitalSignature, crlSign } = keyUsageBits;
  const id = 'spiffe://lubeck.example';
  const table: readonly (readonly [what: string, rule: Rule, options: ForgeOptions])[] = [
    ['two SPIFFE IDs', 'exactly-one-uri', { uris: [id, 'spiffe://bruges.example'] }],
    ['a path in its SPIFFE ID', 'signing-path', { uris: [web] }],
    ['cA false', 'signing-is-ca', { ca: false }],
    ['no basic constraints', 'signing-is-ca', { ca: null }],
    ['no key usage', 'key-usage', { ca: true, keyUsage: null }],
    ['a key usage that is not critical', 'key-usage', { keyUsageCritical: false }],
    ['a key usage that only revokes', 'signing-key-usage', { keyUsage: crlSign }],
    ['the key usage of a leaf', 'signing-key-usage', { keyUsage: digitalSignature }],
    ['another trust domain', 'trust-domain', { uris: ['spiffe://bruges.example'] }],
  ];
  for (const [what, rule, options] of table) {
    test(`with ${what} (${rule})`, () => {
      const issuer = forge({ issuer: root, ca: true, uris: [id], ...options });
      refuses(rule, () => validate([forgeLeaf(issuer, web), issuer]));
      refuses(rule, () => lintSigning(issuer.certificate, lubeck));
    });
  }
});
