package az

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// What a person can mend. Errors of all methods wrap one of these where it is the cause.
var (
	ErrCredentials = fmt.Errorf("%w for Azure: set AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, "+
		"run `az login`, or run under an identity", objstore.ErrCredentials)
	ErrDenied      = fmt.Errorf("%w: check the roles on the container (Storage Blob Data Contributor)", objstore.ErrDenied)
	ErrNoContainer = errors.New("the container does not exist: make it, or correct its name or the account's")
	ErrUnreachable = errors.New("the endpoint cannot be reached: check the account's name, the endpoint, and the network")
)

// status is the HTTP status of an answer that is an error; 0 when there was no answer.
func status(err error) int {
	var re *azcore.ResponseError
	if errors.As(err, &re) {
		return re.StatusCode
	}
	return 0
}

// explain puts what a person can act on first.
func explain(err error) error {
	var hint error
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case err == nil, errors.Is(err, ErrCredentials):
	case bloberror.HasCode(err, bloberror.ContainerNotFound):
		hint = ErrNoContainer
	case bloberror.HasCode(err, bloberror.AuthenticationFailed, bloberror.NoAuthenticationInformation), status(err) == http.StatusUnauthorized:
		hint = ErrCredentials
	case status(err) == http.StatusForbidden:
		hint = ErrDenied
	case errors.As(err, &dns), errors.As(err, &op) && op.Op == "dial":
		hint = ErrUnreachable
	}
	if hint == nil {
		return err
	}
	return fmt.Errorf("%w: %w", hint, err)
}

// writeError tells failures that certainly wrote nothing from those that leave it open.
func writeError(verb, key string, err error) error {
	err = explain(err)
	code := status(err)
	switch {
	case err == nil:
		return nil
	case code >= 300 && code < 500, errors.Is(err, ErrCredentials), errors.Is(err, ErrUnreachable):
		return fmt.Errorf("%s %s: %w", verb, key, err)
	}
	return fmt.Errorf("%s %s: %w: %w", verb, key, objstore.ErrUnknownOutcome, err)
}

func readError(verb, key string, err error) error {
	err = explain(err)
	switch code := status(err); {
	case errors.Is(err, ErrNoContainer):
	case code == http.StatusNotFound:
		return fmt.Errorf("%s %s: %w", verb, key, objstore.ErrNotFound)
	case code == http.StatusRequestedRangeNotSatisfiable:
		return fmt.Errorf("%s %s: %w", verb, key, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("%s %s: %w", verb, key, err)
}
