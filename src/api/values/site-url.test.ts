import assert from 'node:assert/strict';
import { test } from 'node:test';
import { maxSiteURLLength, parseSiteURL } from './site-url.ts';

test('an https URL of a host is the URL of a site', () => {
  for (const [text, href] of [
    ['https://lubeck.example:8443', 'https://lubeck.example:8443/'],
    ['HTTPS://Lubeck.Example', 'https://lubeck.example/'],
    ['https://[::1]:8443/', 'https://[::1]:8443/'],
    ['https://192.0.2.7:8443/below/a/proxy', 'https://192.0.2.7:8443/below/a/proxy'],
    ['https://lübeck.example', 'https://xn--lbeck-kva.example/'],
  ] as const)
    assert.equal(parseSiteURL(text)?.href, href, text);
});

test('whatever a peer could not use, or would read otherwise, is none', () => {
  for (const text of [
    '',
    'https://',
    'https://[',
    'https://[::1',
    'https://[::g]',
    'https://a:b',
    'https://a:70000',
    'https://a:0',
    'https://300.1.1.1',
    'https://a%zz',
    'https://a b',
    'https://a\n.example',
    'https://a\\b',
    'https:/a',
    'http://a',
    'ftp://a',
    'a:8443',
    'https://u@a',
    'https://@a',
    'https://u:p@a',
    'https://a/?q',
    'https://a?',
    'https://a/#f',
    'https://a#',
    `https://a/${'x'.repeat(maxSiteURLLength)}`,
    // Within bounds as written, beyond them when encoded.
    `https://a/${'ü'.repeat(1000)}`,
  ])
    assert.equal(parseSiteURL(text), undefined, text.slice(0, 40));
});
